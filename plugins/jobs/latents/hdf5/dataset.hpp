// The elements of an HDF5 dataset: in the header, in one piece or in chunks, with checksums or without.
#pragma once
#include "plugins/jobs/latents/hdf5/object_header.hpp"

namespace kinora::core::hdf5 {

struct Dataset {
  SafeDtype dtype = SafeDtype::f32;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;  // of all elements, no more than the file has
};

class DatasetReader {
 public:
  DatasetReader(Walk& walk, uint64_t address);
  const Dataset& dataset() const { return dataset_; }
  // to: dataset().bytes bytes. Little-endian, row-major.
  void read(std::span<std::byte> to);

 private:
  struct Chunks;
  void read_chunks(Cursor& layout, std::span<std::byte> to);
  bool has_checksums() const;

  Walk& walk_;
  ObjectHeader header_;
  Dataset dataset_;
};

}  // namespace kinora::core::hdf5
