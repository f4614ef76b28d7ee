// Where the ranks of a world listen: the socket on which rank 0 serves the store, and the address of each for
// the others.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace kinora {

// A TCP socket bound to the address that the ranks use, so that no other interface of the machine offers the
// store. The caller owns the descriptor, which does not listen yet. Nothing if `host` is not an address of this
// machine, as behind a translation of addresses, or if a name other than localhost is known here by a loopback address
// alone, as Debian's own host name is: then the store must listen on every interface. Throws
// Error(KINORA_ERROR_IO) with the reason if the port is taken.
std::optional<int> bound_socket(const std::string& host, uint16_t port);

// The address at which this rank listens for the others, which meet at host:port. It is a loopback address if
// `host` names one, since all ranks are then on this machine; "" if the machine's own name has an address
// that others can reach; else, where names of machines are not known, that of the interface towards `host`,
// "" if there is none.
std::string own_address(const std::string& host, uint16_t port);

}  // namespace kinora
