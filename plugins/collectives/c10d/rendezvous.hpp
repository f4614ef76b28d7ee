// The meeting point of the ranks of a world: c10d's stores, from the URI that every rank received.
#pragma once
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "kinora/abi/collective.h"

namespace kinora {

struct Rendezvous {
  std::string file;  // for "file:///folder/name": a path on a file system that all ranks share; empty: tcp
  std::string host;  // for "tcp://host:port": the address where rank 0 listens
  uint16_t port = 0;
  std::string
      part;  // for "store://host:port/part": part of a store that another process serves there (torchrun)

  bool tcp() const { return file.empty(); }
};

// Throws Error(KINORA_ERROR_INVALID) that shows the valid forms. collective: the first word of errors.
Rendezvous parse_rendezvous(const std::string& collective, const std::string& uri);

// Opens the store and waits until every rank has done so. Throws Error(KINORA_ERROR_TIMEOUT) that names the
// ranks that have not.
c10::intrusive_ptr<c10d::Store> meet(const std::string& collective, const Rendezvous& at,
                                     const kinora_world& world);

}  // namespace kinora
