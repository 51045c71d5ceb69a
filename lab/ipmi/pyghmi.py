# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# A BMC made of pyghmi's server, as VirtualBMC makes one: pyghmi.py PORT, with the user
# name and the password on standard input. It prints what it does to the server.
import sys

from pyghmi.ipmi import bmc


class Server(bmc.Bmc):
    power, boot = 'off', 'default'

    def _set(self, power):
        self.power = power
        print('power', power, flush=True)
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
        print('reset', flush=True)
        return 0

    def get_boot_device(self):
        return self.boot

    def set_boot_device(self, device):
        self.boot = device
        print('boot', device, flush=True)
        return 0

    def cold_reset(self):
        return 0


username, password = sys.stdin.readline().rstrip('\n'), sys.stdin.readline().rstrip('\n')
server = Server({username: password}, port=int(sys.argv[1]), address='127.0.0.1')
print('ready', flush=True)
server.listen()
