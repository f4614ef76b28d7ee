// Where the ranks of a world meet: c10d's stores, from the URI that every rank was given.
#pragma once
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "kinora/abi/collective.h"

namespace kinora {

struct Rendezvous {
  std::string file;  // of "file:///folder/name": a path on a file system that all ranks share; empty: tcp
  std::string host;  // of "tcp://host:port": where rank 0 listens
  uint16_t port = 0;
  std::string part;  // of "store://host:port/part": of a store that somebody else serves there (torchrun)

  bool tcp() const { return file.empty(); }
};

// Throws Error(KINORA_INVALID) that shows the forms. collective: the first word of errors.
Rendezvous parse_rendezvous(const std::string& collective, const std::string& uri);

// Opens the store and waits until every rank has done so. Throws Error(KINORA_TIMEOUT) that names the ranks
// that have not.
c10::intrusive_ptr<c10d::Store> meet(const std::string& collective, const Rendezvous& at,
                                     const kinora_world& world);

}  // namespace kinora
