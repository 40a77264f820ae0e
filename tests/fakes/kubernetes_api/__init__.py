"""A small Kubernetes API server in this process, over real HTTP on loopback.

    with FakeKubernetes() as cluster:
        api = cluster.client()                       # a kubernetes.client.ApiClient
        cluster.control("sandboxclaims", bind)       # a controller: called for every change of that resource
        cluster.faults.add("GET", "/sandboxclaims", status=500, times=2)

Any resource is known at once, built-in or custom. What it keeps of the real one: resource versions, conflicts,
watches with bookmarks that can be resumed or are too old (410), finalizers and deletion, generations, the status
subresource, label and field selectors, merge and JSON patches. What it does not check: schemas, admission, quotas.
"""

from tests.fakes.kubernetes_api.faults import Faults
from tests.fakes.kubernetes_api.server import FakeKubernetes
from tests.fakes.kubernetes_api.store import ApiError, Kind, Store

__all__ = ["ApiError", "FakeKubernetes", "Faults", "Kind", "Store"]
