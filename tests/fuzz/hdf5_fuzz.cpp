// Any bytes as a file of latents, without its checksums, at which changes would end: members and elements within the
// file's size, or an error in words.
#include <cstdlib>
#include <cstring>

#include "plugins/jobs/latents/hdf5/hdf5_file.hpp"

namespace {

using namespace kinora::core;  // NOLINT(google-build-using-namespace)

class Memory final : public ByteSource {
 public:
  Memory(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    if (offset > size_ || size > size_ - offset) std::abort();
    if (size > 0) std::memcpy(to, data_ + offset, size);
    return size;
  }

 private:
  std::string name_ = "memory";
  const uint8_t* data_;
  size_t size_;
};

// Reads every member as a dataset, else as a group.
void read_below(const hdf5::File& file, uint64_t group, int depth, int& budget) {
  for (const auto& [name, address] : file.members(group)) {
    if (--budget < 0) return;
    if (name.size() > file.size()) std::abort();
    try {
      std::vector<std::byte> got;
      file.read(address, [&](const hdf5::Dataset& d) {
        if (d.bytes > file.size()) std::abort();
        got.resize(d.bytes);
        return std::span(got);
      });
    } catch (const kinora::Error& e) {
      if (e.code() != KINORA_ERROR_DATA || std::strlen(e.what()) == 0) std::abort();
      if (depth < 3) read_below(file, address, depth + 1, budget);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const hdf5::File file(std::make_shared<Memory>(data, size), hdf5::Checksums::ignored);
    if (const auto text = file.text_of_root("kinora.latents"); text && text->size() > size) std::abort();
    int budget = 300;
    read_below(file, file.root(), 0, budget);
  } catch (const kinora::Error& e) {
    if (e.code() != KINORA_ERROR_DATA) std::abort();
  }
  return 0;
}
