# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# A BMC with pyghmi's server, as in VirtualBMC: pyghmi.py PORT LOG, with the user name and the
# password on standard input. It appends its actions on the server to the file LOG before it answers,
# and prints a line when it listens.
import sys

from pyghmi.ipmi import bmc

log = open(sys.argv[2], 'a', buffering=1)


class Server(bmc.Bmc):
    # The boot device stays until it is changed, as in VirtualBMC.
    power, boot = 'off', 'default'

    def _set(self, power):
        if power == 'on' and self.power == 'off':
            print('boots', self.boot, file=log)
        self.power = power
        print('power', power, file=log)
        return 0

    def get_power_state(self):
        return self.power

    def power_on(self):
        return self._set('on')

    def power_off(self):
        return self._set('off')

    def power_shutdown(self):
        return self._set('off')

    def power_reset(self):
        if self.power == 'on':
            print('boots', self.boot, file=log)
        return 0

    def get_boot_device(self):
        return self.boot

    def set_boot_device(self, device):
        self.boot = device
        print('boot', device, file=log)
        return 0

    def cold_reset(self):
        print('cold reset', file=log)
        return 0


username, password = sys.stdin.readline().rstrip('\n'), sys.stdin.readline().rstrip('\n')
server = Server({username: password}, port=int(sys.argv[1]), address='127.0.0.1')
print('ready', flush=True)
server.listen()
