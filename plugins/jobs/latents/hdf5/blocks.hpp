// The bytes of an HDF5 file, block by block, for the reader in hdf5_file.hpp. Whatever a file states is compared
// with what the file has before it is used: damage is an Error(KINORA_ERROR_DATA) that says where, without the
// file's name.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/byte_source.hpp"

namespace kinora::core::hdf5 {

using Bytes = std::span<const uint8_t>;
constexpr uint64_t kChecksum = 4;            // bytes at the end of a block of metadata
constexpr uint64_t kNowhere = ~uint64_t{0};  // the address of what a file does not have

[[noreturn]] void damaged(const std::string& what);
[[noreturn]] void unsupported(const std::string& what);

// Little-endian numbers of a block, in order; reading beyond its end is damage.
class Cursor {
 public:
  Cursor(Bytes bytes, std::string_view what) : bytes_(bytes), what_(what) {}
  uint64_t number(uint64_t width);  // of 1 to 8 bytes
  uint64_t address() { return number(8); }
  Bytes take(uint64_t size);
  void skip(uint64_t size) { take(size); }
  std::string text(uint64_t size);
  void expect(std::string_view signature);
  uint64_t left() const { return bytes_.size() - at_; }
  uint64_t position() const { return at_; }

 private:
  Bytes bytes_;
  std::string_view what_;
  uint64_t at_ = 0;
};

enum class Checksums { verified, ignored };

// One way through a file's blocks. A whole file has every block once, so a walk that has read twice the size of
// the file follows blocks that refer to each other in a circle, or to one block many times: damage, before its
// memory or its time can exceed what the file's size allows.
class Walk {
 public:
  Walk(const ByteSource& file, Checksums checksums)
      : file_(file), checksums_(checksums), left_(2 * file.size()) {}
  uint64_t size() const { return file_.size(); }
  // These bytes of the file, into `to`, whose memory is used again.
  void read(uint64_t address, uint64_t size, std::string_view what, std::vector<uint8_t>& to);
  std::vector<uint8_t> block(uint64_t address, uint64_t size, std::string_view what);
  // At most `size` bytes, of a block whose size is not known yet.
  std::vector<uint8_t> beginning(uint64_t address, uint64_t size, std::string_view what);
  // Counts bytes that a block's contents are copied to.
  void spend(uint64_t size, std::string_view what);
  // The last 4 bytes of a block of metadata are Jenkins' lookup3 of those before.
  void check_metadata(Bytes block, std::string_view what) const;
  bool verifies() const { return checksums_ == Checksums::verified; }

 private:
  const ByteSource& file_;
  Checksums checksums_;
  uint64_t left_;
};

// Bob Jenkins' lookup3.c, hashlittle with initval 0, and Fletcher's checksum of big-endian 16-bit words, as the
// filter fletcher32 stores it.
uint32_t lookup3(Bytes);
uint32_t fletcher32(Bytes);

}  // namespace kinora::core::hdf5
