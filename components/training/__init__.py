"""The five stages: supervised and reinforcement learning, checkpoints."""
