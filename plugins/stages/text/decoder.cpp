#include "decoder.hpp"

#include <algorithm>
#include <charconv>

#include "unicode.hpp"

namespace kinora::text {
namespace {

// The bytes at the start of a text: a character, the beginning of one, or neither.
struct Head {
  size_t length;
  bool whole, open;  // open: more bytes could make it a character
};

// Well-formed sequences are those of table 3-7 of the Unicode standard.
Head head_of(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = at(0);
  const size_t n = lead < 0x80   ? 1
                   : lead < 0xC2 ? 0
                   : lead < 0xE0 ? 2
                   : lead < 0xF0 ? 3
                   : lead < 0xF5 ? 4
                                 : 0;
  if (n == 0) return {1, false, false};
  for (size_t i = 1; i < std::min(n, bytes.size()); ++i) {
    unsigned low = 0x80, high = 0xBF;
    if (i == 1) {
      low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
      high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
    }
    if (at(i) < low || at(i) > high) return {i, false, false};
  }
  return {std::min(n, bytes.size()), n <= bytes.size(), n > bytes.size()};
}

// Removes the text at the start of `bytes`. The beginning of a character at their end stays, unless `last`.
std::string take_text(std::string& bytes, bool last, bool mark_each_byte) {
  std::string out;
  size_t at = 0;
  while (at < bytes.size()) {
    const Head head = head_of(std::string_view(bytes).substr(at));
    if (head.open && !last) break;
    if (head.whole) {
      out.append(bytes, at, head.length);
    } else {
      for (size_t i = 0; i < (mark_each_byte ? head.length : 1); ++i) append(out, U'\uFFFD');
    }
    at += head.length;
  }
  bytes.erase(0, at);
  return out;
}

// The bytes that the letters stand for. A piece with any other character stands for itself.
void from_byte_letters(IdText& t, bool) {
  static const auto bytes = [] {
    std::unordered_map<std::string, char, Hash, std::equal_to<>> out;
    for (size_t b = 0; b < 256; ++b) out.emplace(byte_letters()[b], static_cast<char>(b));
    return out;
  }();
  if (t.fixed) return;
  std::string out;
  for (std::string_view rest = t.text; !rest.empty();) {
    const auto it = bytes.find(rest.substr(0, length_of_first(rest)));
    if (it == bytes.end()) return;
    out += it->second;
    take(rest);
  }
  t.text = out;
}

DecodeStep metaspace(Fields& f) {
  const auto mark = f.get<std::string>("replacement", "\u2581");
  const auto scheme =
      f.get<std::string>("prepend_scheme", f.get("add_prefix_space", true) ? "always" : "never");
  f.skip({"str_rep", "split", "add_prefix_space"});
  return [mark, prepends = scheme != "never"](IdText& t, bool first) {
    t.text = replaced(t.text, mark, first && prepends ? "" : " ");
  };
}

// Removes up to `start` and `stop` times the character `what` at the ends.
DecodeStep strip(Fields& f, bool fused) {
  const auto what = f.get<std::string>("content");
  const auto start = f.get<int64_t>("start"), stop = f.get<int64_t>("stop");
  if (what.empty()) f.refuse("'content' is empty");
  // More than this depends on text that may not be there yet.
  if (fused && (start > 1 || stop > 0))
    f.refuse("Strip of the whole text is supported for start = 0 or 1 and stop = 0");
  return [=](IdText& t, bool first) {
    if (fused && !first) return;
    for (int64_t i = 0; i < start && t.text.starts_with(what); ++i) t.text.erase(0, what.size());
    for (int64_t i = 0; i < stop && t.text.ends_with(what); ++i) t.text.resize(t.text.size() - what.size());
  };
}

DecodeStep word_piece(Fields& f) {
  return
      [prefix = f.get<std::string>("prefix", "##"), cleans = f.get("cleanup", true)](IdText& t, bool first) {
        if (!first) t.text = t.text.starts_with(prefix) ? t.text.substr(prefix.size()) : " " + t.text;
        if (!cleans) return;
        for (const auto& [what, by] : {std::pair{" .", "."},
                                       {" ?", "?"},
                                       {" !", "!"},
                                       {" ,", ","},
                                       {" ' ", "'"},
                                       {" n't", "n't"},
                                       {" 'm", "'m"},
                                       {" do not", " don't"},
                                       {" 's", "'s"},
                                       {" 've", "'ve"},
                                       {" 're", "'re"}})
          t.text = replaced(t.text, what, by);
      };
}

void fall_back_to_bytes(IdText& t, bool) {
  const auto byte = byte_of(t.text);
  if (!byte) return;
  t.text = *byte;
  t.is_byte = true;
}

DecodeStep replace(const Json& json, const std::string& where) {
  return [by = read_normalizer(json, where)](IdText& t, bool) {
    if (!t.is_byte) t.text = by(t.text);
  };
}

// Adds the steps of one decoder. fused: later steps would see the whole text as one piece.
void read_steps(const Json& json, const std::string& where, int depth, DecodeRules& rules, bool& fused) {
  Fields f(json, where);
  const auto type = f.get<std::string>("type");
  if (depth > kDeepest) f.refuse("sequences are nested too deeply");
  if (type == "Sequence") {
    for (const auto& one : f.need("decoders")) read_steps(one, where, depth + 1, rules, fused);
    return f.done();
  }
  if (fused && type != "Fuse" && type != "Strip")
    f.refuse("'" + type + "' after Fuse or ByteLevel is not supported");
  if (type == "ByteLevel") {
    f.skip({"add_prefix_space", "trim_offsets", "use_regex"});
    rules.steps.emplace_back(from_byte_letters);
  } else if (type == "ByteFallback") {
    rules.mark_each_byte = true;
    rules.steps.emplace_back(fall_back_to_bytes);
  } else if (type == "Metaspace") {
    rules.steps.push_back(metaspace(f));
  } else if (type == "Strip") {
    rules.steps.push_back(strip(f, fused));
  } else if (type == "WordPiece") {
    rules.steps.push_back(word_piece(f));
  } else if (type == "Replace") {
    f.skip({"pattern", "content"});
    rules.steps.push_back(replace(json, where));
  } else if (type != "Fuse") {
    f.refuse("the decoder '" + type +
             "' is not known; the known decoders are ByteLevel, ByteFallback, Metaspace, "
             "Replace, Strip, Fuse, WordPiece and Sequence");
  }
  fused = fused || type == "ByteLevel" || type == "Fuse";
  f.done();
}

}  // namespace

DecodeRules read_decoder(const Json& json, const std::string& where) {
  DecodeRules rules;
  bool fused = false;
  if (!json.is_null()) {
    read_steps(json, where, 0, rules, fused);
  } else {
    rules.steps.emplace_back([](IdText& t, bool first) {
      if (!first) t.text.insert(0, " ");
    });
  }
  return rules;
}

std::optional<char> byte_of(std::string_view piece) {
  unsigned byte = 0;
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  const auto read = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  return read.ptr == piece.data() + 5 ? std::optional(static_cast<char>(byte)) : std::nullopt;
}

std::string Decoder::decode(std::span<const int64_t> ids, bool skip_special, bool last,
                            Unfinished& kept) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto it = texts_.find(ids[i]);
    if (it == texts_.end())
      throw Error(KINORA_ERROR_DATA, name_ + ": no piece has the id " + std::to_string(ids[i]) + " (number " +
                                         std::to_string(i) +
                                         " of the ids); give the tokenizer that made the ids");
    if (skip_special && it->second.special) continue;
    IdText t = it->second;
    for (const auto& step : rules_.steps) step(t, !kept.begun);
    kept.bytes += t.text;
    kept.begun = kept.begun || !rules_.begins_with_text || !t.text.empty();
  }
  return take_text(kept.bytes, last, rules_.mark_each_byte);
}

}  // namespace kinora::text
