// Reads the part of HDF5 that files of latents use, without libhdf5, which has known faults of memory in what it
// does with hostile files: this reader knows no plugins, no filters but a checksum, no links by name or to other
// files, and compares all that a file states with the file's size.
//
// Groups in all forms up to HDF5 1.8 (h5py's default and since), attributes of fixed text, datasets of the dtypes
// below in the header, in one piece or in chunks of a version 1 B-tree, with fletcher32 or no filter. Anything else
// is an error that says what it is. Specification: The HDF Group, HDF5 File Format Specification Version 3.0.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "plugins/jobs/latents/hdf5/blocks.hpp"
#include "plugins/jobs/latents/hdf5/dataset.hpp"
#include "plugins/jobs/latents/hdf5/group.hpp"

namespace kinora::core::hdf5 {

// [any-thread] all functions. Errors are Error(KINORA_ERROR_DATA) without the file's name: the caller knows the
// name of the member, too.
class File {
 public:
  // checksums: ignored by the fuzz target alone, whose changes would otherwise end at the first one.
  explicit File(std::shared_ptr<const ByteSource> source, Checksums checksums = Checksums::verified);

  uint64_t root() const { return root_; }
  std::optional<std::string> text_of_root(const std::string& attribute) const;
  Members members(uint64_t group) const;
  // Calls room(dataset) for the memory of dataset.bytes bytes and fills it.
  void read(uint64_t dataset, const std::function<std::span<std::byte>(const Dataset&)>& room) const;
  uint64_t size() const { return source_->size(); }

 private:
  Walk walk() const { return {*source_, checksums_}; }

  std::shared_ptr<const ByteSource> source_;
  Checksums checksums_;
  uint64_t root_ = 0;
};

}  // namespace kinora::core::hdf5
