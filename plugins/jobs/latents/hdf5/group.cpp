#include "plugins/jobs/latents/hdf5/group.hpp"

namespace kinora::core::hdf5 {
namespace {

void add(Members& members, std::string name, uint64_t address) {
  if (!members.emplace(std::move(name), address).second) damaged(std::string(kList));
}

// The form before 1.8: a B-tree of nodes that list names of a heap.
class SymbolTable {
 public:
  SymbolTable(Walk& walk, Members& members) : walk_(walk), members_(members) {}

  void run(Bytes message) {
    Cursor c(message, kList);
    const uint64_t tree = c.address();
    read_names(c.address());
    read_tree(tree, kTop);
  }

 private:
  static constexpr uint64_t kTop = 256;  // above every level

  void read_names(uint64_t address) {
    const auto block = walk_.block(address, 32, kList);
    Cursor c(block, kList);
    c.expect("HEAP");
    c.skip(4);  // version
    const uint64_t size = c.number(8);
    c.skip(8);  // free space
    names_ = walk_.block(c.address(), size, kList);
  }

  void read_tree(uint64_t address, uint64_t above) {
    constexpr uint64_t kHead = 24;
    const auto head = walk_.block(address, kHead, kList);
    Cursor h(head, kList);
    h.expect("TREE");
    const uint64_t type = h.number(1), level = h.number(1), entries = h.number(2);
    if (type != 0 || level >= above) damaged(std::string(kList));
    const auto body = walk_.block(address + kHead, entries * 16, kList);
    Cursor c(body, kList);
    for (uint64_t i = 0; i < entries; ++i) {
      c.skip(8);  // the first name below
      const uint64_t below = c.address();
      level == 0 ? read_node(below) : read_tree(below, level);
    }
  }

  void read_node(uint64_t address) {
    constexpr uint64_t kHead = 8, kEntry = 40, kSoftLink = 2;
    const auto head = walk_.block(address, kHead, kList);
    Cursor h(head, kList);
    h.expect("SNOD");
    h.skip(2);  // version
    const uint64_t entries = h.number(2);
    const auto body = walk_.block(address + kHead, entries * kEntry, kList);
    for (uint64_t i = 0; i < entries; ++i) {
      Cursor c(Bytes(body).subspan(i * kEntry, kEntry), kList);
      auto name = name_at(c.number(8));
      const uint64_t object = c.address();
      add(members_, std::move(name), c.number(4) == kSoftLink ? kNowhere : object);
    }
  }

  std::string name_at(uint64_t offset) {
    if (offset >= names_.size()) damaged(std::string(kList));
    const std::string_view rest(reinterpret_cast<const char*>(names_.data()) + offset,
                                names_.size() - offset);
    const auto end = rest.find('\0');
    if (end == std::string_view::npos) damaged(std::string(kList));
    walk_.spend(end, kList);
    return std::string(rest.substr(0, end));
  }

  Walk& walk_;
  Members& members_;
  std::vector<uint8_t> names_;
};

}  // namespace

void add_link(Bytes message, Members& members) {
  Cursor c(message, kList);
  if (c.number(1) != 1) damaged(std::string(kList));
  const uint64_t flags = c.number(1);
  constexpr uint64_t kOrder = 0x04, kType = 0x08, kCharacters = 0x10, kHard = 0;
  const uint64_t type = flags & kType ? c.number(1) : kHard;
  c.skip((flags & kOrder ? 8 : 0) + (flags & kCharacters ? 1 : 0));
  auto name = c.text(c.number(uint64_t{1} << (flags & 3)));
  add(members, std::move(name), type == kHard ? c.address() : kNowhere);
}

Members members_of(Walk& walk, const ObjectHeader& group) {
  Members out;
  if (group.find(Kind::symbol_table)) {
    SymbolTable(walk, out).run(group.need(Kind::symbol_table, "list of names"));
    return out;
  }
  Cursor c(group.need(Kind::link_info, "list of names"), kList);
  c.skip(1);  // version
  if (c.number(1) & 1) c.skip(8);
  const uint64_t heap = c.address();
  for (const auto& m : group.messages)
    if (m.kind == Kind::link) add_link(m.bytes, out);
  if (heap != kNowhere) add_heap_links(walk, heap, c.address(), out);
  return out;
}

}  // namespace kinora::core::hdf5
