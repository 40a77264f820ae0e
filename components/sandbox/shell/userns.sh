# Lays out the guest's file system inside fresh mount, process, network, IPC and host-name namespaces, makes it the
# root, and runs the rest of the command line. Used where bubblewrap is missing; the layout is the one of confine.py.
#
# usage: userns.sh HOME ETC TMP_BYTES [PATH=INSIDE]... -- COMMAND...
set -eu
home=$1 etc=$2 tmp_bytes=$3
shift 3

root=/sys # any directory that exists everywhere and holds nothing the guest gets
mount -t tmpfs -o size=256k,mode=755,nosuid,nodev tmpfs "$root"
mkdir -p "$root"/{etc,home/user,opt,proc,dev,tmp,usr,old}

# Read-only binds: a second mount sets the flags. Extra flags are always allowed, missing ones are not.
bind_readonly() {
  mount --rbind "$1" "$2"
  mount -o remount,bind,ro,nosuid,nodev "$2"
}

bind_readonly /usr "$root/usr"
for name in bin sbin lib lib32 lib64 libx32; do
  if [[ -L /$name ]]; then
    cp -P "/$name" "$root/$name"
  elif [[ -d /$name ]]; then
    mkdir "$root/$name"
    bind_readonly "/$name" "$root/$name"
  fi
done
cp "$etc"/{passwd,group,hosts} "$root/etc/"
for name in alternatives ld.so.conf.d; do
  if [[ -d /etc/$name ]]; then
    mkdir "$root/etc/$name"
    bind_readonly "/etc/$name" "$root/etc/$name"
  fi
done
for name in ld.so.cache ld.so.conf; do
  if [[ -e /etc/$name ]]; then
    : > "$root/etc/$name"
    bind_readonly "/etc/$name" "$root/etc/$name"
  fi
done

mount -t tmpfs -o size=64k,mode=755,nosuid tmpfs "$root/dev"
for name in null zero full random urandom; do
  : > "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mount -o remount,bind,ro,nosuid "$root/dev"

mount -t tmpfs -o "size=$tmp_bytes,mode=1777,nosuid,nodev" tmpfs "$root/tmp"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
while [[ $1 != -- ]]; do
  mkdir -p "$root${1##*=}"
  bind_readonly "${1%=*}" "$root${1##*=}"
  shift
done
shift
mount --bind "$home" "$root/home/user"

hostname desk
cd "$root"
pivot_root . old
umount -l /old
rmdir /old
mount -o remount,bind,ro,nosuid,nodev /
cd /home/user
exec "$@"
