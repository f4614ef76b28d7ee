// Groups of more than 8 members: link messages in a fractal heap, found through a version 2 B-tree that has a
// record a name. Both are read whole: a cache's user needs the address of each sample sooner or later.
#include <algorithm>
#include <bit>

#include "plugins/jobs/latents/hdf5/group.hpp"

namespace kinora::core::hdf5 {
namespace {

// Bytes that hold numbers up to n.
uint64_t width_of(uint64_t n) { return n == 0 ? 1 : (std::bit_width(n) + 7) / 8; }

// Managed objects are in direct blocks, whose addresses are in a table of rows: the blocks of rows 0 and 1 have
// the starting size, those of each further row twice that of the row before. Rows of blocks beyond the largest
// direct block's size have indirect blocks instead, tables of the same form.
class FractalHeap {
 public:
  FractalHeap(Walk& walk, uint64_t address) : walk_(walk) {
    constexpr uint64_t kSize = 146;
    const auto block = walk.block(address, kSize, kList);
    walk.check_metadata(block, kList);
    Cursor c(block, kList);
    c.expect("FRHP");
    c.skip(1);  // version
    id_size_ = c.number(2);
    if (c.number(2) != 0) unsupported("the list of a group is compressed, which a cache's is not");
    const uint64_t flags = c.number(1);
    checked_ = (flags & 2) != 0;
    largest_object_ = c.number(4);
    c.skip(12 * 8);  // huge and tiny objects, statistics, free space
    columns_ = c.number(2);
    starting_ = c.number(8);
    largest_block_ = c.number(8);
    offset_width_ = (c.number(2) + 7) / 8;
    c.skip(2);
    const uint64_t root = c.address(), rows = c.number(2);
    if (columns_ == 0 || !std::has_single_bit(columns_) || !std::has_single_bit(starting_) ||
        !std::has_single_bit(largest_block_) || largest_block_ < starting_ || offset_width_ > 8)
      damaged(std::string(kList));
    length_width_ = std::min<uint64_t>((std::bit_width(largest_block_) + 6) / 8, width_of(largest_object_));
    if (root == kNowhere) return;
    uint64_t offset = 0;
    rows == 0 ? read_direct(root, starting_, offset) : read_indirect(root, rows, offset);
  }

  Bytes object(Bytes id) const {
    Cursor c(id, kList);
    constexpr uint64_t kManaged = 0;
    if (c.number(1) >> 4 != kManaged) unsupported("has a name that is longer than a cache's");
    const uint64_t offset = c.number(offset_width_), length = c.number(length_width_);
    auto after = blocks_.upper_bound(offset);
    if (after == blocks_.begin()) damaged(std::string(kList));
    const auto& [start, block] = *--after;
    Cursor b(block, kList);
    b.skip(offset - start);
    return b.take(length);
  }
  uint64_t id_size() const { return id_size_; }

 private:
  uint64_t prefix() const { return 4 + 1 + 8 + offset_width_; }

  void read_direct(uint64_t address, uint64_t size, uint64_t offset) {
    auto block = walk_.block(address, size, kList);
    Cursor c(block, kList);
    c.expect("FHDB");
    if (checked_) check_direct(block);
    blocks_.emplace(offset, std::move(block));
  }

  // The checksum is between the prefix and the objects, and counts as zero in itself.
  void check_direct(std::vector<uint8_t> block) const {
    Cursor c(block, kList);
    c.skip(prefix());
    const uint64_t stored = c.number(kChecksum);
    std::fill_n(block.begin() + static_cast<std::ptrdiff_t>(prefix()), kChecksum, uint8_t{0});
    if (walk_.verifies() && stored != lookup3(block)) damaged(std::string(kList));
  }

  uint64_t size_in(uint64_t row) const { return row == 0 ? starting_ : starting_ << (row - 1); }

  void read_indirect(uint64_t address, uint64_t rows, uint64_t& offset) {
    if (rows > 64 || rows + std::bit_width(starting_) > 64) damaged(std::string(kList));
    const auto block = walk_.block(address, prefix() + rows * columns_ * 8 + kChecksum, kList);
    walk_.check_metadata(block, kList);
    Cursor c(block, kList);
    c.expect("FHIB");
    c.skip(prefix() - 4);
    for (uint64_t row = 0; row < rows; ++row)
      for (uint64_t column = 0; column < columns_; ++column) {
        const uint64_t size = size_in(row), child = c.address();
        uint64_t within = offset;
        offset += size;
        if (child == kNowhere) continue;
        if (size <= largest_block_)
          read_direct(child, size, within);
        else
          read_indirect(child, rows_of(size, row), within);
      }
  }

  // Rows of a table whose blocks have this size in sum; fewer than those of the table that refers to it.
  uint64_t rows_of(uint64_t size, uint64_t above) const {
    const int rows = std::bit_width(size) - std::bit_width(starting_ * columns_) + 1;
    if (rows < 1 || static_cast<uint64_t>(rows) > above) damaged(std::string(kList));
    return static_cast<uint64_t>(rows);
  }

  Walk& walk_;
  uint64_t id_size_ = 0, largest_object_ = 0, columns_ = 0, starting_ = 0, largest_block_ = 0,
           offset_width_ = 0, length_width_ = 0;
  bool checked_ = false;
  std::map<uint64_t, std::vector<uint8_t>> blocks_;  // by the offset of their first byte in the heap
};

class NameIndex {
 public:
  NameIndex(Walk& walk, const FractalHeap& heap, Members& members)
      : walk_(walk), heap_(heap), members_(members) {}

  void run(uint64_t address) {
    constexpr uint64_t kSize = 38, kNames = 5, kMostDepth = 16;
    const auto block = walk_.block(address, kSize, kList);
    walk_.check_metadata(block, kList);
    Cursor c(block, kList);
    c.expect("BTHD");
    c.skip(1);  // version
    const uint64_t type = c.number(1);
    node_ = c.number(4);
    record_ = c.number(2);
    const uint64_t depth = c.number(2);
    c.skip(2);  // when nodes are split and merged
    const uint64_t root = c.address(), records = c.number(2);
    if (type != kNames || record_ != 4 + heap_.id_size() || depth > kMostDepth || node_ < 64)
      damaged(std::string(kList));
    find_widths(depth);
    if (root != kNowhere) read(root, records, depth);
  }

 private:
  static constexpr uint64_t kFrame = 4 + 1 + 1 + kChecksum;  // signature, version, type

  // How many bytes the numbers of records in a child and below it have, by level from the leaves.
  void find_widths(uint64_t depth) {
    uint64_t most = (node_ - kFrame) / record_, below = most;
    count_width_ = width_of(most);
    below_widths_.assign(1, 0);
    for (uint64_t level = 1; level <= depth; ++level) {
      const uint64_t pointer = 8 + count_width_ + below_widths_.back();
      if (node_ <= kFrame + pointer) damaged(std::string(kList));
      most = (node_ - kFrame - pointer) / (record_ + pointer);
      below = (most + 1) * below + most;
      below_widths_.push_back(width_of(below));
    }
  }

  void read(uint64_t address, uint64_t records, uint64_t level) {
    const uint64_t below_width = level > 1 ? below_widths_[level - 1] : 0,
                   pointers = level > 0 ? (records + 1) * (8 + count_width_ + below_width) : 0;
    const auto block = walk_.block(address, kFrame + records * record_ + pointers, kList);
    walk_.check_metadata(block, kList);
    Cursor c(block, kList);
    c.expect(level > 0 ? "BTIN" : "BTLF");
    c.skip(2);
    for (uint64_t i = 0; i < records; ++i) {
      c.skip(4);  // the name's hash
      const auto link = heap_.object(c.take(record_ - 4));
      walk_.spend(link.size(), kList);
      add_link(link, members_);
    }
    for (uint64_t i = 0; level > 0 && i <= records; ++i) {
      const uint64_t child = c.address(), count = c.number(count_width_);
      c.skip(below_width);
      read(child, count, level - 1);
    }
  }

  Walk& walk_;
  const FractalHeap& heap_;
  Members& members_;
  uint64_t node_ = 0, record_ = 0, count_width_ = 0;
  std::vector<uint64_t> below_widths_;
};

}  // namespace

void add_heap_links(Walk& walk, uint64_t heap, uint64_t index, Members& members) {
  NameIndex(walk, FractalHeap(walk, heap), members).run(index);
}

}  // namespace kinora::core::hdf5
