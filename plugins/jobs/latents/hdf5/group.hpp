// The members of an HDF5 group: names and the addresses of their objects.
#pragma once
#include <map>
#include <string>

#include "plugins/jobs/latents/hdf5/object_header.hpp"

namespace kinora::core::hdf5 {

constexpr std::string_view kList = "the list of a group";

// kNowhere for a member that is a link to a name or to another file.
using Members = std::map<std::string, uint64_t>;

// In the three forms of the format: a symbol table (h5py's default), links in the header (up to 8, since 1.8),
// links in a fractal heap with an index (more).
Members members_of(Walk&, const ObjectHeader& group);

// Add what one link message says, and the members that a heap stores.
void add_link(Bytes message, Members&);
void add_heap_links(Walk&, uint64_t heap, uint64_t index, Members&);

}  // namespace kinora::core::hdf5
