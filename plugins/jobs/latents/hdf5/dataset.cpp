#include "plugins/jobs/latents/hdf5/dataset.hpp"

#include <algorithm>
#include <cstring>

#include "host/weights/safetensors_header.hpp"

namespace kinora::core::hdf5 {
namespace {

constexpr std::string_view kData = "its data";
constexpr const char* kElsewhere = "its data is in another file";

void copy_all(Bytes from, std::span<std::byte> to) {
  if (from.size() != to.size()) throw Error(KINORA_ERROR_DATA, "shape and stored bytes disagree");
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

}  // namespace

// The chunks of one dataset, found through a B-tree by the place of their first element.
struct DatasetReader::Chunks {
  Chunks(Walk& walk, const Dataset& dataset, std::span<std::byte> to, bool checksums)
      : walk(walk), dataset(dataset), to(to), checksums(checksums) {}

  // sizes: of a chunk, each dimension's and at last an element's.
  void set_sizes(Cursor& c) {
    const size_t rank = dataset.shape.size();
    sizes.resize(rank + 1);
    strides.assign(rank + 1, size_of(dataset.dtype));
    chunk_strides = strides;
    for (auto& n : sizes) n = c.number(4);
    uint64_t count = 1;
    for (size_t d = rank; d-- > 0;) {
      const auto n = static_cast<uint64_t>(dataset.shape[d]);
      if (sizes[d] == 0) damaged("the size of its chunks");
      count *= (n + sizes[d] - 1) / sizes[d];  // at most as many as elements
      strides[d] = strides[d + 1] * n;
      if (__builtin_mul_overflow(chunk_strides[d + 1], sizes[d], &chunk_strides[d]) ||
          chunk_strides[d] > walk.size())
        damaged("the size of its chunks");
    }
    if (sizes[rank] != size_of(dataset.dtype)) damaged("the size of its chunks");
    seen.assign(count, false);
  }

  void read_tree(uint64_t address, uint64_t above) {
    constexpr uint64_t kHead = 24;
    const auto head = walk.block(address, kHead, "the list of its chunks");
    Cursor h(head, "the list of its chunks");
    h.expect("TREE");
    const uint64_t type = h.number(1), level = h.number(1), entries = h.number(2);
    if (type != 1 || level >= above) damaged("the list of its chunks");
    const uint64_t entry = 8 + 8 * sizes.size() + 8;
    const auto body = walk.block(address + kHead, entries * entry, "the list of its chunks");
    Cursor c(body, "the list of its chunks");
    for (uint64_t i = 0; i < entries; ++i) {
      const uint64_t bytes = c.number(4), left_out = c.number(4);
      std::vector<uint64_t> first(sizes.size());
      for (auto& n : first) n = c.number(8);
      const uint64_t child = c.address();
      if (level > 0) {
        read_tree(child, level);
        continue;
      }
      if (left_out != 0) unsupported("a chunk of its data lacks its checksum");
      read_chunk(child, bytes, first);
    }
  }

  void read_chunk(uint64_t address, uint64_t bytes, const std::vector<uint64_t>& first) {
    const uint64_t whole = chunk_strides[0];
    if (bytes != whole + (checksums ? 4 : 0)) damaged("a chunk of its data");
    uint64_t number = 0, at = 0;
    for (size_t d = 0; d + 1 < sizes.size(); ++d) {
      const auto n = static_cast<uint64_t>(dataset.shape[d]);
      if (first[d] >= n || first[d] % sizes[d] != 0) damaged("the list of its chunks");
      number = number * ((n + sizes[d] - 1) / sizes[d]) + first[d] / sizes[d];
      at += first[d] * strides[d + 1];
    }
    if (seen[number]) damaged("the list of its chunks");
    seen[number] = true;
    ++found;
    walk.read(address, bytes, "a chunk of its data", chunk);
    const Bytes elements = Bytes(chunk).first(whole);
    if (checksums) {
      Cursor c(Bytes(chunk).subspan(whole), kData);
      if (c.number(4) != fletcher32(elements) && walk.verifies()) damaged("a chunk of its data");
    }
    copy(0, first, elements.data(), to.data() + at);
  }

  // The part of the chunk within the shape; one piece from the dimension on below which it is as wide.
  void copy(size_t d, const std::vector<uint64_t>& first, const uint8_t* from, std::byte* target) const {
    const auto n = std::min(sizes[d], static_cast<uint64_t>(dataset.shape[d]) - first[d]);
    if (strides[d + 1] == chunk_strides[d + 1] && is_full_below(d)) {
      std::memcpy(target, from, n * strides[d + 1]);
      return;
    }
    for (uint64_t i = 0; i < n; ++i)
      copy(d + 1, first, from + i * chunk_strides[d + 1], target + i * strides[d + 1]);
  }
  bool is_full_below(size_t d) const {
    for (size_t k = d + 1; k < dataset.shape.size(); ++k)
      if (sizes[k] != static_cast<uint64_t>(dataset.shape[k])) return false;
    return true;
  }

  Walk& walk;
  const Dataset& dataset;
  std::span<std::byte> to;
  bool checksums;
  std::vector<uint64_t> sizes, strides, chunk_strides;  // strides in bytes, [d]: of all from dimension d on
  std::vector<bool> seen;
  uint64_t found = 0;
  std::vector<uint8_t> chunk;
};

DatasetReader::DatasetReader(Walk& walk, uint64_t address)
    : walk_(walk), header_(read_object_header(walk, address)) {
  if (header_.find(Kind::external_files)) unsupported(kElsewhere);
  dataset_.dtype = dtype_of(header_.need(Kind::datatype, "type"));
  dataset_.shape = shape_of(header_.need(Kind::dataspace, "shape"));
  const auto bytes = byte_size(dataset_.shape, dataset_.dtype);
  if (!bytes || *bytes > walk.size()) throw Error(KINORA_ERROR_DATA, "shape and stored bytes disagree");
  dataset_.bytes = *bytes;
}

void DatasetReader::read(std::span<std::byte> to) {
  Cursor c(header_.need(Kind::layout, "place of its data"), "the place of its data");
  constexpr uint64_t kInHeader = 0, kInChunks = 2, kVirtual = 3;  // 1: in one piece
  const uint64_t version = c.number(1), form = c.number(1);
  if (version == 4 && form == kVirtual) unsupported(kElsewhere);
  if (version != 3 || form > kInChunks)
    unsupported(fmt::format(
        "its data has layout {}, which a cache's has not (in h5py: libver=('earliest', 'v108'))", version));
  if (to.empty()) return;
  if (form == kInChunks) return read_chunks(c, to);
  if (header_.find(Kind::filters)) damaged("the place of its data");
  if (form == kInHeader) return copy_all(c.take(c.number(2)), to);
  const uint64_t address = c.address(), size = c.number(8);
  if (address == kNowhere || size != to.size())
    throw Error(KINORA_ERROR_DATA, "shape and stored bytes disagree");
  std::vector<uint8_t> bytes;
  walk_.read(address, size, kData, bytes);
  copy_all(bytes, to);
}

bool DatasetReader::has_checksums() const {
  if (!header_.find(Kind::filters)) return false;
  Cursor c(header_.need(Kind::filters, "filters"), "the list of its filters");
  constexpr uint64_t kFletcher32 = 3;
  const uint64_t version = c.number(1), count = c.number(1);
  if (version == 1) c.skip(6);
  for (uint64_t i = 0; i < count; ++i)
    if (const uint64_t filter = c.number(2); count > 1 || filter != kFletcher32)
      unsupported(
          fmt::format("its data went through filter {}, which caches do not use: only fletcher32, and no "
                      "compression",
                      filter));
  return count == 1;
}

void DatasetReader::read_chunks(Cursor& layout, std::span<std::byte> to) {
  if (layout.number(1) != dataset_.shape.size() + 1 || dataset_.shape.empty())
    damaged("the size of its chunks");
  const uint64_t tree = layout.address();
  Chunks chunks(walk_, dataset_, to, has_checksums());
  chunks.set_sizes(layout);
  if (tree != kNowhere) chunks.read_tree(tree, 256);
  if (chunks.found != chunks.seen.size()) throw Error(KINORA_ERROR_DATA, "shape and stored bytes disagree");
}

}  // namespace kinora::core::hdf5
