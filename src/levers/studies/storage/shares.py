"""Where a file is kept: SQLite needs a disk of this machine, because it locks and shares memory through it."""

import os
import re
import warnings

NETWORK = re.compile(
    "9p|afs|beegfs|ceph|cifs|coda|davfs|drvfs|glusterfs|gfs2|gpfs|lustre|ncpfs|nfs|nfs4|ocfs2|prl_fs|smb3|smbfs|vboxsf"
    r"|virtiofs|vmhgfs|fuse\.(gcsfuse|glusterfs|rclone|s3fs|sshfs|vmhgfs-fuse|davfs2)"
)
"""File systems that several machines may write to, or whose locks stay on one of them."""

LOCAL = re.compile("apfs|bcachefs|btrfs|ext[234]|f2fs|jfs|ntfs3?|overlay|ramfs|reiserfs|tmpfs|vfat|xfs|zfs")
"""File systems of one machine, with locks."""


class NetworkShareWarning(UserWarning):
    """A storage is a file on a network share, where SQLite can lose what was told."""


def file_system(path: str, mounts: str = "/proc/self/mounts") -> str | None:
    """The type of the file system that a path is on, as the system calls it; None where it does not say.

    >>> file_system("/proc/self") in ("proc", None)
    True
    """
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            found = [line.split()[1:3] for line in lines if len(line.split()) > 2]
    except OSError:
        return None
    here, best, kind = os.path.realpath(path), "", None
    for place, name in found:
        folder = place.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = here == folder or here.startswith(folder.rstrip("/") + "/")
        if inside and len(folder) >= len(best):  # a later mount at the same place hides the one before
            best, kind = folder, name
    return kind


def has_locks(folder: str) -> bool | None:
    """Whether a lock that is taken in a folder is seen by another holder of the file; None where it cannot be tried.

    >>> import tempfile
    >>> has_locks(tempfile.gettempdir())
    True
    """
    import tempfile

    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".levers-") as first, open(first.name, "r+b") as second:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
    except OSError as error:
        import errno

        return False if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP) else None


def trouble(path: str, mounts: str = "/proc/self/mounts") -> str | None:
    """What is wrong with keeping a SQLite file at a path, in a sentence; None when nothing is known to be."""
    kind, folder = file_system(path, mounts), os.path.dirname(os.path.abspath(path))
    if kind is not None and NETWORK.fullmatch(kind):
        why = f"it is on a network share ({kind})"
    elif kind is not None and not LOCAL.fullmatch(kind) and has_locks(folder) is False:
        why = f"its file system ({kind}) has no locks"
    else:
        return None
    return (
        f"{path}: {why}, where SQLite can lose what several processes tell. Keep the file on a disk of this machine, "
        "and let others in with `levers dashboard` or PostgreSQL"
    )


_warned: set[str] = set()


def warn_of_share(path: str) -> None:
    """Warn, once for each folder, of a file on a share."""
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in _warned:
        _warned.add(folder)
        said = trouble(path)
        if said is not None:
            warnings.warn(NetworkShareWarning(said), stacklevel=2)
