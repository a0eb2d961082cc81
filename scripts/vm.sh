#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Boot the kernel with the module and run a command: vm.sh COMMAND
# or an interactive shell: vm.sh --shell
#
# COMMAND is a line for bash, run in /rrxe/guest (selftests/guest of the tree).
# Its output goes to standard output, its status is the status of vm.sh, except
#
#	99	the command succeeded, but the kernel log holds what it must not
#	124	the command took longer than TMO seconds
#	125	the guest died or hung
#
# The result directory (printed at the end) holds console.log (serial), dmesg,
# kmsg (the kernel's log as it was written), output.log and all that the command
# left in the guest's /out.
#
#	KERNEL		 the kernel: empty for the stock one, or the NAME of scripts/kernel-NAME.config
#	MEM SMP TMO CPU	 memory in MiB, processors, time limit, CPU model
#	PATIENCE	 what all time limits are multiplied with, in the guest too
#	ICOUNT=1	 count instructions instead of time: repeatable, one CPU
#	ACCEL=tcg|kvm	 default: KVM if it works here
#	MODULE		 the module to install in the guest (default: the built one)
#	NAME		 name of the result directory
#	PCAP		 link (of the guest's first name space) to capture
#	DMESG_IGNORE	 pattern of kernel log lines that the test provokes
#	VM_FILES	 more files or directories to put in the guest's /rrxe
#	VM_ENV		 names of variables to pass on
#	APPEND		 more kernel parameters
#	QEMU_ARGS	 more arguments of QEMU
#	CHECKS		 kernel parameters that tell a debugging kernel what to check
#
# What a kernel of our own wants stands in the head of its configuration, as in
#
#	# vm: MEM=3072

. "$(dirname "$0")/common.sh"

HERE=$RRXE_TREE/scripts
[[ $# -eq 1 && -n $1 ]] || die "usage: vm.sh COMMAND"
command=$1
shell=
if [[ $command == --shell ]]; then
	[[ -t 0 ]] || die "the interactive shell needs a terminal"
	shell=1 command='exec bash -i' TMO=${TMO:-86400} NAME=${NAME:-shell}
fi
need_root
"$HERE/setup.sh"

kernel_settings() { [[ -z $KERNEL ]] || sed -nE 's/^# vm: //p' "$(kernel_config)"; }

while read -r setting; do
	[[ -v ${setting%%=*} ]] || declare "$setting"
done < <(kernel_settings)

release=$(kernel_release)
guest=$(guest_dir)
MODULE=${MODULE:-$RRXE_TREE/build/$(kernel_release)/rrxe.ko}
PATIENCE=${PATIENCE:-1}
TMO=$((${TMO:-900} * PATIENCE))
BOOT_TMO=$((${BOOT_TMO:-300} * PATIENCE))
MEM=${MEM:-2048}
SMP=${SMP:-2}
ACCEL=${ACCEL:-$("$HERE/vm-accel.sh")}

# A CPU with fast CRC32, but without ERMS: under emulation that makes copies slow.
# Without RDRAND the kernel would spin for seconds to gather entropy.
case $ACCEL in
kvm) CPU=${CPU:-host} ;;
*) CPU=${CPU:-qemu64,+pclmulqdq,+ssse3,+sse4.1,+sse4.2,+rdrand} ;;
esac

results() {
	local name=${NAME:-run}
	mkdir -p "$RRXE_TREE/build/vm"
	result=$(mktemp -d "$RRXE_TREE/build/vm/$name-$(date +%H%M%S)-XXXX")
	chmod 755 "$result"
	mkdir "$result/out"
	# Keep the newest ones only.  Another run may be doing the same.
	find "$RRXE_TREE/build/vm" -mindepth 1 -maxdepth 1 -printf '%T@ %p\n' | sort -rn | tail -n +60 | cut -d' ' -f2- | xargs -r rm -rf || true
}

quoted() { printf '%s=%q\n' "$1" "$2"; }

stage_command() {
	local name
	stage=$result/stage
	mkdir -p "$stage/rrxe"
	printf '%s\n' "$command" > "$stage/rrxe/command"
	{
		quoted GUEST_TMO "$TMO"
		quoted GUEST_SHELL "$shell"
		quoted PCAP "${PCAP:-}"
		echo export DMESG_IGNORE
		quoted DMESG_IGNORE "${DMESG_IGNORE:-}"
		for name in PATIENCE ${VM_ENV:-}; do
			[[ -v $name ]] && echo "export $name" && quoted "$name" "${!name}"
		done
	} > "$stage/rrxe/environment"
	RRXE_ENV=VM_FILES "$HERE/in-chroot.sh" "$HERE/guest-overlay.sh" "$guest" "$release" "$stage" "$MODULE" "$result/overlay.cpio"
	cat "$guest/base.cpio" "$result/overlay.cpio" > "$result/initrd"
	rm -rf "$stage" "$result/overlay.cpio"
}

# On a busy machine the kernel's own calibration may fail by a factor.
tsc_rate() {
	[[ $ACCEL == tcg && -z ${ICOUNT:-} ]] || return 0
	echo "tsc_early_khz=$("$HERE/in-chroot.sh" "$guest/tsc-khz")"
}

boot() {
	local qemu append saved
	append="console=ttyS0 loglevel=5 panic=-1 oops=panic tsc=reliable mitigations=off nokaslr"
	# An emulated processor may get no time for long: that is no stall of the kernel.
	append+=" rcupdate.rcu_cpu_stall_timeout=180 watchdog_thresh=60 $(tsc_rate) ${CHECKS:-} ${APPEND:-}"
	qemu=(qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot
		-machine q35 -cpu "$CPU" -m "$MEM"
		-kernel "$guest/vmlinux" -initrd "$result/initrd" -append "$append"
		-serial "file:$result/console.log"
		-chardev "stdio,id=command,signal=off" -serial chardev:command
		-virtfs "local,path=$result/out,mount_tag=out,security_model=none,multidevs=remap"
		-device "isa-debug-exit,iobase=0xf4,iosize=4")
	# shellcheck disable=SC2206
	qemu+=(${QEMU_ARGS:-})
	if [[ -n ${ICOUNT:-} ]]; then
		qemu+=(-accel "tcg,thread=single" -icount "shift=0,sleep=off" -smp 1 -rtc clock=vm -seed 1)
	else
		case $ACCEL in
		kvm) qemu+=(-accel kvm -smp "$SMP") ;;
		*) qemu+=(-accel "tcg,thread=multi" -smp "$SMP") ;;
		esac
	fi
	if [[ -n $shell ]]; then
		saved=$(stty -g)
		stty raw -echo
		"$HERE/in-chroot.sh" "${qemu[@]}" || true
		stty "$saved"
	else
		timeout -k 5 $((TMO + BOOT_TMO)) "$HERE/in-chroot.sh" "${qemu[@]}" < /dev/null | tee "$result/output.log"
	fi
}

# What the guest reported, or why it could not.
verdict() {
	mv "$result"/out/{dmesg,kmsg,status} "$result/" 2>/dev/null || true
	rm -f "$result/initrd"
	status=125
	[[ -s $result/status ]] && status=$(cat "$result/status")
	if [[ $status = 125 ]]; then
		say "the guest did not finish; the end of its console:"
		tail -n 40 "$result/console.log" >&2 || true
	elif ! "$HERE/dmesg-check" "$result/console.log" >&2 && [[ $status = 0 ]]; then
		status=99
	fi
	say "status $status after $SECONDS s; results in ${result#"$RRXE_TREE"/}"
}

results
stage_command
boot || true
verdict
exit "$status"
