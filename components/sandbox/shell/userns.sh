# Lays out the guest's file system inside fresh mount, process, network, IPC and host-name namespaces, makes it the
# root, and runs the rest of the command line. Used where bubblewrap is missing; the layout is the one of confine.py.
# All mounts are listed in one table for one mount(8), because starting programs is what costs time here.
#
# usage: userns.sh HOME ETC TMP_BYTES [PATH=INSIDE]... -- COMMAND...
set -eu
PATH=$PATH:/usr/sbin:/sbin
home=$1 etc=$2 tmp_bytes=$3
shift 3

root=/sys # any directory that exists everywhere and holds nothing the guest gets
directories=("$root"/{etc,home/user,opt,proc,dev,tmp,usr,old})
files=()
links=(/dev/{fd,stdin,stdout,stderr})
top_links=()
table=

# line FROM INSIDE TYPE OPTIONS: one line of the table; its fields may not contain blanks (fstab(5)).
line() {
  local from=${1//\\/\\134} to=$root$2
  from=${from// /\\040} from=${from//$'\t'/\\011} from=${from//$'\n'/\\012}
  table+="$from $to $3 $4 0 0"$'\n'
}
# Extra restrictions are always allowed in a user namespace, dropping one that the host's mount has is not.
readonly_directory() { directories+=("$root$2") && line "$1" "$2" none rbind,ro,nosuid,nodev; }
readonly_file() { files+=("$root$2") && line "$1" "$2" none bind,ro,nosuid,nodev; }

readonly_directory /usr /usr
for name in bin sbin lib lib32 lib64 libx32; do
  if [[ -L /$name ]]; then
    top_links+=("/$name")
  elif [[ -d /$name ]]; then
    readonly_directory "/$name" "/$name"
  fi
done
for name in alternatives ld.so.conf.d; do
  if [[ -d /etc/$name ]]; then readonly_directory "/etc/$name" "/etc/$name"; fi
done
for name in ld.so.cache ld.so.conf; do
  if [[ -e /etc/$name ]]; then readonly_file "/etc/$name" "/etc/$name"; fi
done
for name in null zero full random urandom; do
  files+=("$root/dev/$name")
  line "/dev/$name" "/dev/$name" none bind
done
line tmpfs /tmp tmpfs "size=$tmp_bytes,mode=1777,nosuid,nodev"
line proc /proc proc nosuid,nodev,noexec
while [[ $1 != -- ]]; do
  readonly_directory "${1%=*}" "${1##*=}"
  shift
done
shift
line "$home" /home/user none bind

if type -P hostname > /dev/null; then hostname desk; fi
mount -t tmpfs -o size=256k,mode=755,nosuid,nodev tmpfs "$root"
mkdir -p "${directories[@]}"
cp "$etc"/{passwd,group,hosts} "$root/etc/"
cp -P "${links[@]}" "$root/dev/"
if ((${#top_links[@]})); then cp -P "${top_links[@]}" "$root/"; fi
for file in "${files[@]}"; do : > "$file"; done
printf %s "$table" > "$root/tmp/table" # soon hidden by the mount on /tmp
mount --all --fstab "$root/tmp/table"
cd "$root"
pivot_root . old
umount -l /old
mount -o remount,bind,ro,nosuid,nodev /
cd /home/user
exec "$@"
