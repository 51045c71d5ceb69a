#cloud-boothook
#!/bin/sh
# Written by Ingot for the first boot of this system. It leaves behind a unit that
# runs after cloud-init has finished, removes the bootstrap secrets from the disk,
# tells Ingot the addresses of this system, and then removes itself.
# A boothook runs in each boot before all that cloud-init does but once, so that a
# first boot that is cut off is seen to have been, and what is left of it goes too.
INGOT_BOOTED_URL='https://192.0.2.1:8843/agent/v1/booted'
INGOT_BOOTED_TOKEN='v1/metal/h1/Booted/-/7c1d3f52-8a4c-4f0e-b6a1-2f9f0f6b7c02/2/1767323045/mac'
INGOT_BOOTED_PIN='sha256//l7BWAoDtYKWh6qG8RUklQ8iphq1aJbRoxCfrg8PogZE=;sha256//xsHJqchUPx5M2YAGTPFiXuthqQcDskZP/wOfIWglCLM='
INGOT_INSTANCE_ID='7c1d3f52-8a4c-4f0e-b6a1-2f9f0f6b7c02'

set -eu
umask 077
mkdir -p /var/lib/ingot
# Written once: a file that is written again leaves its blocks on the disk, and what it held.
# What is not of this instance came with the image.
grep -qsF "INGOT_INSTANCE_ID='$INGOT_INSTANCE_ID'" /var/lib/ingot/first-boot.env || {
	rm -f /var/lib/ingot/first-boot.*
	cat > /var/lib/ingot/first-boot.env <<ENV
INGOT_BOOTED_URL='$INGOT_BOOTED_URL'
INGOT_BOOTED_TOKEN='$INGOT_BOOTED_TOKEN'
INGOT_BOOTED_PIN='$INGOT_BOOTED_PIN'
INGOT_FIRST_BOOT_ID='$(cat /proc/sys/kernel/random/boot_id)'
INGOT_INSTANCE_ID='$INGOT_INSTANCE_ID'
ENV
}
cat > /var/lib/ingot/first-boot.sh <<'SCRIPT'
#!/bin/sh
# Runs after cloud-init has finished, until it has done all once. See vendor-data of Ingot.
boot=$(cat /proc/sys/kernel/random/boot_id)

# sentinel says whether there is the file by which bootstrap providers tell that they have
# succeeded (Cluster API's contract of theirs), after cloud-init has ended; without it nothing.
sentinel() {
	[ -e /var/lib/cloud/instance/boot-finished ] || return 0
	[ -e /run/cluster-api/bootstrap-success.complete ] && echo true || echo false
}

# outcome of the first boot. cloud-init ends in the boot in which it began, or leaves out for
# good what it had begun; the next boot finds no sentinel any more.
outcome() {
	succeeded=
	if [ "$boot" = "$INGOT_FIRST_BOOT_ID" ]; then
		succeeded=$(sentinel)
		echo "$succeeded" > /var/lib/ingot/first-boot.ended && sync
	elif [ -e /var/lib/ingot/first-boot.ended ]; then
		succeeded=$(cat /var/lib/ingot/first-boot.ended)
	elif [ -e /var/lib/cloud/instance ]; then
		printf ',"interrupted":true'
	fi
	case $succeeded in true | false) printf ',"sentinel":%s' "$succeeded" ;; esac
}

# overwrite takes the content of a file from the disk.
overwrite() {
	[ -f "$1" ] || return 0
	if command -v shred > /dev/null 2>&1; then
		shred -n 1 "$1" && return 0
	fi
	size=$(wc -c < "$1")
	dd if=/dev/zero of="$1" bs=4096 count=$(((size + 4095) / 4096)) conv=notrunc,fsync 2> /dev/null
}

# destroy overwrites a file before it is removed: its blocks stay on the disk.
destroy() {
	overwrite "$1"
	rm -f "$1"
}

# empty overwrites a file of the seed and leaves one that says nothing. There is always
# one of that name: after a power cut without it cloud-init would see another instance.
empty() {
	printf '#cloud-config\n{}\n' > "$1.new"
	overwrite "$1"
	sync
	mv "$1.new" "$1"
}

# 1. Secrets: user data, vendor data and everything that cloud-init made of them.
# meta-data stays, so that cloud-init sees the same instance at the next boot.
scrub() {
	empty /var/lib/cloud/seed/nocloud/user-data
	empty /var/lib/cloud/seed/nocloud/vendor-data
	for file in \
		/var/lib/cloud/instances/*/user-data.txt* /var/lib/cloud/instances/*/vendor-data*.txt* \
		/var/lib/cloud/instances/*/cloud-config.txt /var/lib/cloud/instances/*/vendor*-cloud-config.txt \
		/var/lib/cloud/instances/*/obj.pkl /var/lib/cloud/instances/*/network-config.json \
		/var/lib/cloud/instances/*/scripts/* /var/lib/cloud/instances/*/scripts/*/* \
		/var/lib/cloud/instances/*/boothooks/*; do
		destroy "$file"
	done
	sync
	# Blocks that were freed earlier (copies that cloud-init rewrote) are given back.
	fstrim / > /dev/null 2>&1 || true
}

# real says whether an interface is a NIC, a bond, bridge, VLAN or team over one, or the
# loopback, which routers may know a server by. Those of Pods and Services (cni0,
# kube-ipvs0) lie over no NIC, or are of another kind (flannel.1 and vxlan.calico).
real() {
	[ "$1" = lo ] || [ -e "/sys/class/net/$1/device" ] && return 0
	case $(sed -n 's/^DEVTYPE=//p' "/sys/class/net/$1/uevent" 2> /dev/null) in bond | bridge | vlan | '') ;; *) return 1 ;; esac
	for lower in "/sys/class/net/$1"/lower_*; do
		[ -e "$lower" ] && real "${lower##*/lower_}" && return 0
	done
	return 1
}

# own lists the addresses of real interfaces; where none has any, those of all.
own() {
	all=$(ip -o address show scope global | awk '{ split($4, a, "/"); print $2, a[1] }')
	kept=$(echo "$all" | while read -r name address; do real "$name" && echo "$name $address"; done)
	echo "${kept:-$all}" | awk 'NF { printf "%s\"%s\"", (NR > 1 ? "," : ""), $2 }'
}

# 2. Report: addresses of this system, until Ingot has taken them. By then Pods may run.
report() {
	addresses=$(own)
	printf '{"instanceID":"%s","hostname":"%s","addresses":[%s],"bootID":"%s"%s}' \
		"$INGOT_INSTANCE_ID" "$(uname -n)" "$addresses" "$boot" "$outcome" |
		curl --silent --show-error --fail --max-time 30 --insecure --pinnedpubkey "$INGOT_BOOTED_PIN" \
			--header "Authorization: Bearer $INGOT_BOOTED_TOKEN" --header 'Content-Type: application/json' \
			--data-binary @- --output /dev/null "$INGOT_BOOTED_URL"
}

# 3. The token has served, and the script. A token that a power cut leaves goes in the next
# boot, where there is systemd. It has another name by then: half of it must not be read.
finish() {
	mv -f /var/lib/ingot/first-boot.env /var/lib/ingot/first-boot.served 2> /dev/null || destroy /var/lib/ingot/first-boot.env
	sync
	destroy /var/lib/ingot/first-boot.served
	sync
	rm -f /etc/systemd/system/*.wants/ingot-first-boot.service /etc/systemd/system/ingot-first-boot.service
	rm -f /var/lib/ingot/first-boot.*
	rmdir /var/lib/ingot 2> /dev/null || true
}

if [ -e /var/lib/ingot/first-boot.env ]; then
	. /var/lib/ingot/first-boot.env
	outcome=$(outcome)
	scrub
	wait=2
	tries=0
	until report; do
		tries=$((tries + 1))
		[ "$tries" -ge 2000 ] && break
		sleep "$wait"
		[ "$wait" -lt 300 ] && wait=$((wait * 2))
	done
fi
finish
SCRIPT
if [ -d /run/systemd/system ]; then
	umask 022
	# multi-user.target comes after what it wants, and on Debian and Ubuntu cloud-init after
	# that target: systemd would leave out one of the cycle. It does not come after a unit
	# without default dependencies (systemd.target(5)); those that it needs are written out.
	cat > /etc/systemd/system/ingot-first-boot.service <<'UNIT'
[Unit]
Description=Report the first boot to Ingot and remove bootstrap secrets
DefaultDependencies=no
Requires=sysinit.target
Wants=network-online.target
After=sysinit.target basic.target network-online.target cloud-final.service
Conflicts=shutdown.target
Before=shutdown.target

[Service]
Type=simple
ExecStart=/bin/sh /var/lib/ingot/first-boot.sh

[Install]
WantedBy=multi-user.target
UNIT
	systemctl enable ingot-first-boot.service
	sync
	systemctl daemon-reload
	systemctl start --no-block ingot-first-boot.service
else
	sync
	(
		until [ -e /var/lib/cloud/instance/boot-finished ]; do sleep 2; done
		exec sh /var/lib/ingot/first-boot.sh
	) > /dev/null 2>&1 &
fi
