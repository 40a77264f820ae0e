"""Programs by what they do to files, machine and network: names only, for `shell_risk`."""

from __future__ import annotations

from components.rollout.live.risk import Kind


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


HARMLESS = _names(
    "ls cat head tail wc grep egrep fgrep rg uniq cut tr echo printf pwd cd pushd popd dirs date whoami id uname df du"
    " file stat tree less more diff cmp comm md5sum sha1sum sha256sum cksum which type printenv true false test [ [["
    " : sleep seq basename dirname realpath readlink jq column nl tac rev fold fmt paste join expand strings od xxd"
    " hexdump mkdir touch export set unset local declare typeset readonly read history jobs wait fg bg shift return"
    " exit getopts let help man info hostname uptime free ps top env nproc locale cal bc expr numfmt sum shopt ulimit"
    " umask break continue for case select function in mapfile readarray yes unalias disown hash times",
)
"""Programs that print or keep what they find (what they write by redirection is looked at apart)."""

WRAPPERS = _names(
    "sudo doas env nice ionice chrt nohup setsid stdbuf time timeout command builtin exec xargs watch parallel chroot"
    " unshare busybox flock strace ltrace runuser setpriv prlimit taskset systemd-run dbus-run-session firejail bwrap"
    " unbuffer script proxychains torify entr caffeinate toybox faketime cgexec choom",
)
"""Programs that run what stands behind them."""

SHELLS = _names("sh bash dash zsh ksh ash mksh rbash fish busybox-sh")
INTERPRETERS = _names(
    "python python2 python3 perl ruby node nodejs php lua tclsh osascript pypy3 deno bun gawk awk mawk"
)

ALWAYS: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(("rm", "unlink", "shred", "rmdir", "wipe", "srm", "trash", "trash-put", "rimraf"),
                    ("delete", "deletes")),
    **dict.fromkeys(("fdisk", "sfdisk", "gdisk", "sgdisk", "parted", "mkswap", "wipefs", "blkdiscard", "cryptsetup",
                     "mount", "umount", "losetup", "lvremove", "vgremove", "pvremove", "zpool", "hdparm", "badblocks"),
                    ("disk", "changes disks")),
    **dict.fromkeys(("kill", "pkill", "killall", "xkill", "skill", "killall5", "fuser"),
                    ("processes", "ends processes")),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff", "init", "telinit", "systemctl", "loginctl", "service"),
                    ("power", "changes what runs on the machine")),
    **dict.fromkeys(("ssh", "scp", "sftp", "ftp", "lftp", "nc", "ncat", "netcat", "telnet", "socat", "mail", "mailx",
                     "sendmail", "mutt", "swaks", "rclone", "s3cmd", "gsutil", "tftp"),
                    ("network", "sends something away")),
    **dict.fromkeys(("crontab", "at", "batch"), ("hidden", "runs something later")),
    **dict.fromkeys(("chattr", "setfacl", "visudo", "passwd", "usermod", "userdel", "useradd", "groupdel", "chpasswd"),
                    ("permissions", "changes rights")),
    **dict.fromkeys(("truncate", "sponge"), ("overwrite", "overwrites")),
}  # fmt: skip
"""Programs that are asked about whatever their arguments are."""

INSTALLERS = _names(
    "pip pip3 pipx uv conda mamba npm yarn pnpm gem cargo go apt apt-get aptitude dpkg yum dnf pacman apk zypper snap"
    " flatpak brew poetry easy_install cpan luarocks nix-env guix rpm",
)
INSTALLING = _names(
    "install uninstall remove purge add update upgrade dist-upgrade full-upgrade autoremove sync get rm i un ci link"
    " publish reinstall download-install tool -i -r -S -Syu -R -U -P -e -iv --install --remove --purge",
)
CLOUD = _names("docker podman kubectl helm terraform aws gcloud az gh glab heroku nerdctl crictl oc tofu vagrant virsh")
CLOUD_VERBS = _names(
    "rm rmi delete del destroy apply prune remove kill stop down terminate purge drop drain create deploy push publish"
    " merge close cp mv sync scale rollout replace patch undefine",
)
"""Words that change something there; the rest of those tools looks at things."""

GIT_LOSING: dict[str, tuple[str, ...]] = {
    "reset": ("--hard", "--merge", "--keep"),
    "clean": ("",),
    "checkout": ("--", ".", "-f", "--force", "-B"),
    "restore": ("",),
    "branch": ("-D", "-d", "--delete", "-M", "--force", "-f"),
    "tag": ("-d", "--delete", "-f", "--force"),
    "stash": ("drop", "clear", "pop"),
    "reflog": ("expire", "delete"),
    "gc": ("--prune", "--prune=now", "--aggressive"),
    "filter-branch": ("",),
    "filter-repo": ("",),
    "update-ref": ("",),
    "rm": ("",),
    "rebase": ("",),
    "switch": ("-C", "-f", "--force", "--discard-changes"),
    "worktree": ("remove", "prune"),
    "remote": ("remove", "rm", "set-url"),
    "prune": ("",),
}
"""git's subcommands that lose work, by the words that make them do so ("" = always)."""
