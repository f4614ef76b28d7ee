#include "core/torch/ranks/node_address.hpp"

#include <netdb.h>

#include "core/base/log.hpp"
#include "core/base/program_output.hpp"

namespace kinora::core {
namespace {

bool is_known(const std::string& host) {
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

std::string address_of(const std::string& node) {
  // "Key=value" pairs, one line; "" if scontrol is missing or fails.
  const std::string said = " " + output_of({"scontrol", "--oneliner", "show", "node", node}), key = " NodeAddr=";
  const size_t at = said.find(key);
  if (at == said.npos) return "";
  const size_t begin = at + key.size();
  const std::string address = said.substr(begin, said.find_first_of(" \n", begin) - begin);
  return is_known(address) ? address : "";
}

}  // namespace

std::string reachable_rendezvous(const LaunchPlace& place) {
  if (place.node_name.empty() || is_known(place.node_name)) return place.rendezvous;
  const std::string address = address_of(place.node_name);
  if (address.empty())
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("the name of the first node, '{0}', is not known on this machine, and scontrol does not "
                    "say its address; pass it to all ranks: MASTER_ADDR=ADDRESS srun ... "
                    "(`scontrol show node {0}` has it as NodeAddr)",
                    place.node_name));
  log_line(KINORA_LOG_DEBUG,
           fmt::format("ranks meet at {}, Slurm's address of {}", address, place.node_name));
  std::string out = place.rendezvous;
  return out.replace(out.find(place.node_name), place.node_name.size(), address);
}

}  // namespace kinora::core
