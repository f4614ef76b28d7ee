#include "plugins/jobs/latents/hdf5/object_header.hpp"

#include <algorithm>
#include <deque>

namespace kinora::core::hdf5 {
namespace {

constexpr std::string_view kObject = "the header of an object";
constexpr uint64_t kSignature = 4;
constexpr uint64_t kMost = uint64_t{16} << 20;  // bytes of one header; a cache's have some hundred

class HeaderReader {
 public:
  explicit HeaderReader(Walk& walk) : walk_(walk) {}

  ObjectHeader run(uint64_t address) {
    const auto start = walk_.beginning(address, 64, kObject);
    if (start.size() >= kSignature &&
        std::string_view(reinterpret_cast<const char*>(start.data()), 4) == "OHDR")
      second_version(start, address);
    else
      first_version(start, address);
    while (!waiting_.empty()) {
      const auto [at, size] = waiting_.front();
      waiting_.pop_front();
      continue_at(at, size);
    }
    return std::move(out_);
  }

 private:
  void first_version(Bytes start, uint64_t address) {
    Cursor c(start, kObject);
    if (c.number(1) != 1) damaged(std::string(kObject));
    c.skip(7);  // reserved, numbers of messages and references
    const uint64_t size = c.number(4);
    out_.blocks.push_back(walk_.block(address + 16, size, kObject));
    add_messages(out_.blocks.back());
  }

  void second_version(Bytes start, uint64_t address) {
    Cursor c(start, kObject);
    c.skip(kSignature);
    if (c.number(1) != 2) damaged(std::string(kObject));
    const uint64_t flags = c.number(1);
    constexpr uint64_t kTimes = 0x20, kAttributeLimits = 0x10, kOrder = 0x04;
    c.skip((flags & kTimes ? 16 : 0) + (flags & kAttributeLimits ? 4 : 0));
    const uint64_t size = c.number(uint64_t{1} << (flags & 3));
    before_data_ = flags & kOrder ? 6 : 4;
    checked_ = true;
    if (size > walk_.size()) damaged(std::string(kObject));
    add_block(address, c.position() + size + kChecksum, c.position());
  }

  void continue_at(uint64_t address, uint64_t size) {
    if (!checked_) {
      out_.blocks.push_back(walk_.block(address, size, kObject));
      return add_messages(out_.blocks.back());
    }
    add_block(address, size, kSignature);
    Cursor(out_.blocks.back(), kObject).expect("OCHK");
  }

  // Version 2 stores the messages between `prefix` bytes and the checksum.
  void add_block(uint64_t address, uint64_t size, uint64_t prefix) {
    const Bytes all = out_.blocks.emplace_back(walk_.block(address, size, kObject));
    walk_.check_metadata(all, kObject);
    if (size < prefix + kChecksum) damaged(std::string(kObject));
    add_messages(all.subspan(prefix, size - prefix - kChecksum));
  }

  void add_messages(Bytes bytes) {
    Cursor c(bytes, kObject);
    size_ += bytes.size();
    if (size_ > kMost) damaged(std::string(kObject));
    while (c.left() >= before_data_) {
      const uint64_t kind = c.number(checked_ ? 1 : 2), size = c.number(2), flags = c.number(1);
      c.skip(before_data_ - (checked_ ? 4 : 5));
      constexpr uint64_t kShared = 0x02;
      const Message message{static_cast<Kind>(std::min<uint64_t>(kind, 0xff)), c.take(size),
                            (flags & kShared) != 0};
      if (message.kind != Kind::continuation) {
        out_.messages.push_back(message);
        continue;
      }
      Cursor to(message.bytes, kObject);
      const uint64_t address = to.address(), length = to.number(8);
      waiting_.emplace_back(address, length);
    }
  }

  Walk& walk_;
  ObjectHeader out_;
  uint64_t before_data_ = 8;  // bytes of a message before its data
  uint64_t size_ = 0;         // bytes of messages so far
  bool checked_ = false;      // version 2
  std::deque<std::pair<uint64_t, uint64_t>> waiting_;
};

// A datatype message without its version: class, three bytes of bits, size, properties.
struct Form {
  uint64_t type, bits, size;
  std::vector<uint64_t> properties;
};

SafeDtype integer_of(const Form& f) {
  constexpr uint64_t kSigned = 0x08;
  if (f.bits == 0 && f.size == 1) return SafeDtype::u8;
  if (f.bits == kSigned)
    for (const auto d : {SafeDtype::i8, SafeDtype::i16, SafeDtype::i32, SafeDtype::i64})
      if (f.size == size_of(d)) return d;
  unsupported("its type, an integer, is not one that a cache can have");
}

SafeDtype float_of(Cursor& c, const Form& f) {
  struct Float {
    SafeDtype dtype;
    uint64_t exponent, mantissa;  // bits
  };
  constexpr Float kFloats[] = {
      {SafeDtype::f32, 8, 23}, {SafeDtype::f64, 11, 52}, {SafeDtype::f16, 5, 10}, {SafeDtype::bf16, 8, 7}};
  const uint64_t at = c.number(1), exponent = c.number(1), start = c.number(1), mantissa = c.number(1),
                 bias = c.number(4);
  for (const auto& known : kFloats) {
    constexpr uint64_t kImpliedOne = 0x20;
    const bool same = f.size == size_of(known.dtype) && f.bits == (kImpliedOne | (f.size * 8 - 1) << 8) &&
                      at == known.mantissa && start == 0 && exponent == known.exponent &&
                      mantissa == known.mantissa && bias == (uint64_t{1} << (exponent - 1)) - 1;
    if (same) return known.dtype;
  }
  unsupported("its type, a float, is not one that a cache can have");
}

// h5py's boolean: an enumeration of FALSE and TRUE over int8, names padded to 8 bytes before version 3.
bool is_boolean(Cursor& c, const Form& f, uint64_t version) {
  if (f.bits != 2 || f.size != 1) return false;
  const uint64_t of = c.number(1) & 0xf, bits = c.number(3), size = c.number(4), offset = c.number(2),
                 precision = c.number(2);
  const uint64_t no = version < 3 ? 8 : 6, yes = version < 3 ? 8 : 5;
  return of == 0 && bits == 0x08 && size == 1 && offset == 0 && precision == 8 &&
         c.text(no).substr(0, 6) == std::string_view("FALSE\0", 6) &&
         c.text(yes).substr(0, 5) == std::string_view("TRUE\0", 5) && c.number(1) == 0 && c.number(1) == 1;
}

uint64_t version_and_form(Cursor& c, Form& f) {
  const uint64_t first = c.number(1);
  f.type = first & 0xf;
  f.bits = c.number(3);
  f.size = c.number(4);
  return first >> 4;
}

bool is_single(Bytes dataspace) {
  const auto shape = shape_of(dataspace);
  return std::all_of(shape.begin(), shape.end(), [](int64_t n) { return n == 1; });
}

}  // namespace

const Message* ObjectHeader::find(Kind kind) const {
  for (const auto& m : messages)
    if (m.kind == kind) return &m;
  return nullptr;
}

Bytes ObjectHeader::need(Kind kind, const char* what) const {
  const auto* message = find(kind);
  if (!message) throw Error(KINORA_ERROR_DATA, fmt::format("has no {}", what));
  if (message->shared) unsupported(fmt::format("its {} is in another object", what));
  return message->bytes;
}

ObjectHeader read_object_header(Walk& walk, uint64_t address) {
  if (address == kNowhere) unsupported("is missing, or a link to another place");
  return HeaderReader(walk).run(address);
}

std::vector<int64_t> shape_of(Bytes dataspace) {
  constexpr uint64_t kMostDims = 16;
  Cursor c(dataspace, "its shape");
  const uint64_t version = c.number(1), rank = c.number(1);
  if (version < 1 || version > 2 || rank > kMostDims) damaged("its shape");
  c.skip(1);  // whether limits and an order follow the sizes
  if (version == 1) c.skip(5);
  constexpr uint64_t kEmpty = 2;
  if (version == 2 && c.number(1) == kEmpty) unsupported("its shape says that it has no value");
  std::vector<int64_t> shape(rank);
  for (auto& n : shape) {
    const uint64_t size = c.number(8);
    if (size > INT64_MAX) damaged("its shape");
    n = static_cast<int64_t>(size);
  }
  return shape;
}

SafeDtype dtype_of(Bytes datatype) {
  Cursor c(datatype, "its type");
  Form f;
  const uint64_t version = version_and_form(c, f);
  constexpr uint64_t kInteger = 0, kFloat = 1, kEnumeration = 8;
  if (version < 1 || version > 3) damaged("its type");
  if (f.type == kEnumeration && is_boolean(c, f, version)) return SafeDtype::boolean;
  if (f.type != kInteger && f.type != kFloat) unsupported("its type is not one that a cache can have");
  if (c.number(2) != 0 || c.number(2) != f.size * 8) unsupported("its numbers do not fill their bytes");
  return f.type == kInteger ? integer_of(f) : float_of(c, f);
}

bool read_text_attribute(const ObjectHeader& header, const std::string& name, std::string& text) {
  for (const auto& m : header.messages) {
    if (m.kind != Kind::attribute || m.shared) continue;
    Cursor c(m.bytes, "an attribute");
    const uint64_t version = c.number(1), shared = c.number(1);
    const uint64_t name_size = c.number(2), type_size = c.number(2), space_size = c.number(2);
    if (version == 3) c.skip(1);  // the name's characters
    const auto field = [&](uint64_t size) {
      const auto bytes = c.take(size);
      if (version == 1) c.skip((8 - size % 8) % 8);
      return bytes;
    };
    const auto written = field(name_size), type = field(type_size), space = field(space_size);
    if (name_size == 0 ||
        std::string_view(reinterpret_cast<const char*>(written.data()), name_size - 1) != name)
      continue;
    Cursor t(type, "an attribute's type");
    Form f;
    version_and_form(t, f);
    constexpr uint64_t kText = 3;
    if (version < 1 || version > 3 || (version > 1 && shared != 0) || f.type != kText || !is_single(space))
      unsupported("attribute " + name + " is not a text of fixed length (in h5py: numpy.bytes_)");
    text = c.text(f.size);
    text.resize(text.find_last_not_of('\0') + 1);
    return true;
  }
  if (const auto* more = header.find(Kind::attribute_info)) {
    Cursor c(more->bytes, "the attributes");
    c.skip(1);
    if (c.number(1) & 1) c.skip(2);
    if (c.address() != kNowhere) unsupported("has more attributes, or larger ones, than a cache");
  }
  return false;
}

}  // namespace kinora::core::hdf5
