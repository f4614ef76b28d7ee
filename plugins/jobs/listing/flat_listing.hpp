// Lists all files below a remote folder, at any depth, in ranges of names at the same time.
//
// Nothing is known of the names at first. A thread without work halves the range of another one: it asks for one name
// behind the middle. If there is none, the range ends there; else what is behind the middle is a range of its own. Up
// to four threads do that for one range at the same time, each halving what is below the probe of the one before.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/io/io.hpp"

namespace kinora::core {

// [any-thread] At most `most` files with names greater than `after`, in the order of the names' bytes; fewer only at
// the end.
using PageOfFiles = std::function<std::vector<Listed>(const std::string& after, uint64_t most)>;

// [one call at a time, any-thread] Takes files in the order of the names' bytes; the calls come in no order.
using TakeFiles = std::function<void(const std::vector<Listed>&)>;

// Gives each of them once to `take`. One page by one thread tells whether there are more. Throws what a page or `take`
// throws, when all threads have ended.
void list_in_ranges(const PageOfFiles& page, uint64_t page_size, int threads, const TakeFiles& take);

// All files below a folder on a storage that lists from a name on (kinora_storage.list_from). False: this one does not,
// or not in order; what was given before does not count. Throws kinora::Error.
bool list_flat(Io& io, const std::string& folder, const TakeFiles& take);

}  // namespace kinora::core
