#include "sentencepiece_spec.hpp"

#include <bit>

#include "kinora/error.hpp"

namespace kinora::text {
namespace {

using Spec = SentencePieceSpec;

// Reads one message of protobuf's wire format field by field.
class Message {
 public:
  Message(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  uint64_t number = 0;    // of the field; its value is one of these
  uint64_t value = 0;     // varint
  float real = 0;         // 4 bytes
  std::string_view text;  // bytes, string or message

  bool next() {
    if (bytes_.empty()) return false;
    const uint64_t key = varint();
    number = key >> 3;
    switch (key & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        text = take(varint());
        break;
      case 5: {
        uint32_t bits = 0;
        const auto four = take(4);
        for (size_t i = 0; i < 4; ++i) bits |= uint32_t{static_cast<unsigned char>(four[i])} << (8 * i);
        real = std::bit_cast<float>(bits);
        break;
      }
      default:
        damaged();
    }
    return true;
  }
  [[noreturn]] void damaged() const {
    throw Error(KINORA_ERROR_INVALID, name_ + ": not a sentencepiece model, or damaged");
  }

 private:
  std::string_view take(uint64_t n) {
    if (n > bytes_.size()) damaged();
    const auto out = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return out;
  }
  uint64_t varint() {
    uint64_t out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto b = static_cast<unsigned char>(take(1)[0]);
      out |= uint64_t{b & 0x7FU} << shift;
      if (b < 0x80) return out;
    }
    damaged();
  }
  std::string_view bytes_;
  const std::string& name_;
};

Spec::Piece read_piece(Message m) {
  Spec::Piece p;
  while (m.next()) {
    if (m.number == 1) p.text = m.text;
    if (m.number == 2) p.score = m.real;
    if (m.number == 3) p.type = m.value;
  }
  return p;
}

void read_trainer(Message m, Spec& s) {
  while (m.next()) switch (m.number) {
      case 3:
        s.model_type = m.value;
        break;
      case 24:
        s.space_is_suffix = m.value;
        break;
      case 35:
        s.byte_fallback = m.value;
        break;
      case 44:
        s.unknown_text = m.text;
        break;
      case 46:
        s.bos = m.text;
        break;
      case 47:
        s.eos = m.text;
        break;
      case 48:
        s.pad = m.text;
        break;
      default:
        break;
    }
}

void read_normalizer_spec(Message m, Spec& s) {
  while (m.next()) switch (m.number) {
      case 2:
        s.charsmap = m.text;
        break;
      case 3:
        s.dummy_prefix = m.value;
        break;
      case 4:
        s.remove_extra = m.value;
        break;
      case 5:
        s.escape = m.value;
        break;
      default:
        break;
    }
}

}  // namespace

SentencePieceSpec read_sentencepiece_spec(std::string_view bytes, const std::string& name) {
  Spec s;
  for (Message m(bytes, name); m.next();) {
    if (m.number == 1) s.pieces.push_back(read_piece({m.text, name}));
    if (m.number == 2) read_trainer({m.text, name}, s);
    if (m.number == 3) read_normalizer_spec({m.text, name}, s);
  }
  if (s.pieces.empty()) Message({}, name).damaged();
  return s;
}

}  // namespace kinora::text
