#include "markup.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "answers.hpp"

namespace kinora::endpoint {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Says how a mark changes the text around it.
enum class Effect {
  opens_thought,
  closes_thought,
  opens_answer,
  closes_answer,
  ends_turn,
  begins_turn,  // ends the text before it too, if there is any
  calls_tool,
  none  // a special token without meaning for the reader
};

// The kind of a mark, without its place.
struct Kind {
  Effect effect = Effect::none;
  std::string name;       // equal for the two marks of a block
  bool is_token = false;  // <|...|>: no text has it, so it counts wherever it stands
};

struct Mark {
  Kind kind;
  size_t begin = 0, end = 0;  // in the text
  bool is_last = false;       // nothing but marks follows, or the next turn
};

template <size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Names are those of the templates of Qwen, DeepSeek, GLM, Kimi, Llama, Gemma, Mistral, Phi, Cohere, Seed, SmolVLM,
// InternVL and gpt-oss, in lower case and without brackets, bars and the slash of a closing one.
constexpr std::array<std::string_view, 13> kThoughts = {
    "think",           "thinking",         "thought",    "thoughts", "reasoning",  "reasoning_content",
    "thought_process", "chain_of_thought", "of_thought", "cot",      "scratchpad", "inner_monologue",
    "unused94"};
// Words that forms and files have too.
constexpr std::array<std::string_view, 4> kThoughtWords = {"reason", "reflection", "analysis", "planning"};
constexpr std::array<std::string_view, 2> kAnswers = {"answer", "final_answer"};
constexpr std::array<std::string_view, 4> kAnswerWords = {"response", "solution", "of_solution", "caption"};
constexpr std::array<std::string_view, 7> kTools = {
    "tool_call", "tool_calls", "function_call", "function_calls", "python_tag", "tools_prefix", "tool_code"};
constexpr std::array<std::string_view, 26> kEnds = {"/s",
                                                    "eos",
                                                    "eot",
                                                    "eot_id",
                                                    "eom",
                                                    "eom_id",
                                                    "im_end",
                                                    "endoftext",
                                                    "end_of_text",
                                                    "end",
                                                    "return",
                                                    "call",
                                                    "end_of_turn",
                                                    "end_of_turn_token",
                                                    "end_of_sentence",
                                                    "end_of_utterance",
                                                    "end_of_msg",
                                                    "end_of_message",
                                                    "endofresponse",
                                                    "end_of_response",
                                                    "endofmessage",
                                                    "eod",
                                                    "pad",
                                                    "eod_id",
                                                    "turn_end",
                                                    "/inst"};
constexpr std::array<std::string_view, 18> kBegins = {"s",
                                                      "bos",
                                                      "begin_of_text",
                                                      "begin_of_sentence",
                                                      "startoftext",
                                                      "im_start",
                                                      "start_header_id",
                                                      "start_of_turn",
                                                      "start",
                                                      "assistant",
                                                      "user",
                                                      "system",
                                                      "human",
                                                      "observation",
                                                      "inst",
                                                      "start_of_turn_token",
                                                      "chatbot_token",
                                                      "user_token"};

// Words that are marks only in bars, and the names that are marks in square brackets: captions have the others.
constexpr std::array<std::string_view, 9> kOnlyInBars = {"end",       "return", "call",  "start",      "user",
                                                         "assistant", "system", "human", "observation"};
constexpr std::array<std::string_view, 9> kSquare = {"think", "/think", "thinking", "/thinking", "inst",
                                                     "/inst", "eos",    "bos",      "tool_calls"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kBrackets = {
    {{"<", ">"}, {"[", "]"}, {"◁", "▷"}}};

// The first bytes of kBrackets.
constexpr std::string_view kFirstBytes = "<[\xE2";
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kQuotes = {
    {{"`", "`"}, {"\"", "\""}, {"'", "'"}, {"“", "”"}, {"‘", "’"}, {"«", "»"}}};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

bool is_thought(std::string_view name) {
  return is_one_of(name, kThoughts) || is_one_of(name, kThoughtWords);
}
bool is_answer(std::string_view name) { return is_one_of(name, kAnswers) || is_one_of(name, kAnswerWords); }
// Whether captions hardly ever have the word in brackets.
bool is_sure(std::string_view name) { return is_one_of(name, kThoughts) || is_one_of(name, kAnswers); }

// name: without brackets and bars.
std::optional<Kind> kind_of(const std::string& name, bool is_token) {
  std::string_view bare(name);
  bool ends = bare.starts_with('/');
  if (ends) bare.remove_prefix(1);
  for (const std::string_view before : {"begin_", "start_", "end_"})
    if (bare.starts_with(before) && bare.size() > before.size()) {
      const auto rest = bare.substr(before.size());
      if (!is_thought(rest) && !is_answer(rest)) break;
      ends = before == "end_";
      bare = rest;
    }
  const auto kind = [&](Effect effect) { return Kind{effect, std::string(bare), is_token}; };
  if (is_thought(bare)) return kind(ends ? Effect::closes_thought : Effect::opens_thought);
  if (is_answer(bare)) return kind(ends ? Effect::closes_answer : Effect::opens_answer);
  const bool is_tool = is_one_of(bare, kTools) || bare.starts_with("function=");
  if (is_tool || (is_token && (bare.starts_with("tool_call") || bare.starts_with("action"))))
    return kind(Effect::calls_tool);
  const bool is_word = !is_token && is_one_of(name, kOnlyInBars);
  if (!is_word && is_one_of(name, kEnds)) return kind(Effect::ends_turn);
  if (!is_word && is_one_of(name, kBegins)) return kind(Effect::begins_turn);
  return is_token ? std::optional(kind(Effect::none)) : std::nullopt;
}

// The marks of some models that have names of their own.
std::optional<Kind> odd_kind(std::string_view inside) {
  if (inside == "|channel")  // Gemma; gpt-oss has bars on both sides
    return Kind{Effect::opens_thought, "channel", true};
  if (inside == "channel|") return Kind{Effect::closes_thought, "channel", true};
  if (inside == "turn|") return Kind{Effect::ends_turn, "turn", true};
  if (inside == "|turn") return Kind{Effect::begins_turn, "turn", true};
  if (inside == "unused95") return Kind{Effect::closes_thought, "unused94", false};  // MedGemma
  return std::nullopt;
}

// The mark that `text` begins with, and its size.
std::optional<std::pair<Kind, size_t>> mark_at(std::string_view text) {
  constexpr size_t kLongest = 48;
  for (const auto& [open, close] : kBrackets) {
    if (!text.starts_with(open)) continue;
    const size_t end = text.substr(0, kLongest).find(close, open.size());
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = trimmed(text.substr(open.size(), end - open.size()));
    if (inside.find_first_of(" \t\r\n<[{\"") != std::string_view::npos) return std::nullopt;
    auto kind = odd_kind(inside);
    if (!kind) {
      std::string name = replaced(replaced(lower_case(std::string(inside)), "｜", "|"), "▁", "_");
      const bool is_token = name.size() > 2 && name.front() == '|' && name.back() == '|';
      if (is_token) name = name.substr(1, name.size() - 2);
      if (const size_t colon = name.find(':'); colon != std::string::npos)  // <seed:think>, </seed:think>
        name = (name.starts_with('/') ? "/" : "") + name.substr(colon + 1);
      if (open == "[" && !is_one_of(name, kSquare)) return std::nullopt;
      kind = kind_of(name, is_token);
    }
    return kind ? std::optional(std::pair(*std::move(kind), end + close.size())) : std::nullopt;
  }
  return std::nullopt;
}

// Whether a text names the mark instead of having it: the tag `<think>`. A mark
// between two words in quotes, "A"<think>"B", is not quoted.
bool is_quoted(std::string_view before, std::string_view after) {
  for (const auto& [open, close] : kQuotes) {
    if (!before.ends_with(open) || !after.starts_with(close)) continue;
    if (open != close) return true;
    before.remove_suffix(open.size());
    const char c = before.empty() ? ' ' : before.back();
    return static_cast<unsigned char>(c) >= 0x80 ||
           std::string_view(" \t\r\n([,:").find(c) != std::string_view::npos;
  }
  return false;
}

// Whether the mark is the end of the answer if `next`, behind the text `between`, is what follows.
bool is_last_before(const Mark& next, std::string_view between) {
  const auto& [effect, name, is_token] = next.kind;
  if (!trimmed(between).empty()) return false;
  if (effect == Effect::begins_turn)
    return is_token || between.empty() || between.find('\n') != std::string_view::npos;
  if (effect == Effect::ends_turn && is_token) return true;
  return next.is_last &&
         (effect == Effect::ends_turn || effect == Effect::closes_answer || effect == Effect::none);
}

std::vector<Mark> marks_of(std::string_view text) {
  std::vector<Mark> out;
  for (size_t at = text.find_first_of(kFirstBytes); at != std::string_view::npos;
       at = text.find_first_of(kFirstBytes, at)) {
    auto found = mark_at(text.substr(at));
    const size_t end = found ? at + found->second : at + 1;
    if (found && !is_quoted(text.substr(0, at), text.substr(end)))
      out.push_back({std::move(found->first), at, end});
    at = end;
  }
  for (size_t i = out.size(); i-- > 0;) {
    const std::string_view rest = text.substr(out[i].end);
    out[i].is_last = i + 1 == out.size()
                         ? trimmed(rest).empty()
                         : is_last_before(out[i + 1], rest.substr(0, out[i + 1].begin - out[i].end));
  }
  return out;
}

// gpt-oss speaks in channels, of which `final` is the reader's. Servers may have removed the marks between them.
std::string_view final_channel(std::string_view text) {
  constexpr std::string_view kChannel = "<|channel|>", kFinal = "<|channel|>final", kMessage = "<|message|>",
                             kBare = "assistantfinal";
  if (text.find(kChannel) == std::string_view::npos) {
    const size_t bare = text.starts_with("analysis") ? text.rfind(kBare) : std::string_view::npos;
    return bare == std::string_view::npos ? text : text.substr(bare + kBare.size());
  }
  const size_t last = text.rfind(kFinal);
  const size_t message = last == std::string_view::npos ? last : text.find(kMessage, last);
  return message == std::string_view::npos ? std::string_view() : text.substr(message + kMessage.size());
}

// The name of the speaker behind the mark that begins a turn.
size_t role_size(std::string_view text) {
  for (const std::string_view role : {"assistant", "model", "Assistant"})
    if (text.starts_with(role)) return role.size();
  return 0;
}

bool has_ended_sentence(std::string_view text) {
  for (const std::string_view end : {".", "!", "?", "。", "！", "？"})
    if (text.ends_with(end)) return true;
  return false;
}

// Without the end marks of models that are not listed: a tag such as <my_own_end> directly behind the last sentence.
std::string without_last_tags(std::string_view text) {
  constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789_";
  while (true) {
    text = trimmed(text);
    const size_t open = text.ends_with('>') ? text.rfind('<') : std::string_view::npos;
    if (open == std::string_view::npos || !has_ended_sentence(text.substr(0, open))) break;
    const std::string_view tag = text.substr(open + 1, text.size() - open - 2);
    if (tag.find('_') == std::string_view::npos || tag.find_first_not_of(kOfNames) != std::string_view::npos)
      break;
    text = text.substr(0, open);
  }
  return std::string(text);
}

// Reads an answer from its first to its last mark. A mark without bars counts only where templates put it; elsewhere it
// is a word of the text. Where it may be either, the answer says nothing, so that it is asked again.
class Reading {
 public:
  explicit Reading(std::string_view text) : text_(text), marks_(marks_of(text)) {
    for (const Mark& mark : marks_)
      if (is_closing(mark)) last_closing_[mark.kind.name] = mark.begin;
  }

  std::string said() {
    size_t at = 0, end = text_.size();
    for (size_t i = 0; i < marks_.size() && marks_[i].begin < end && !has_ended_;) {
      const Mark& mark = marks_[i++];
      out_ += text_.substr(at, mark.begin - at);
      at = mark.end;
      if (!counts(mark)) {
        if (is_in_doubt(mark)) return "";
        out_ += text_.substr(mark.begin, mark.end - mark.begin);
        opened_[mark.kind.name] += is_opening(mark) || mark.kind.effect == Effect::begins_turn ? 1 : -1;
        continue;
      }
      if (is_opening(mark)) {
        const Mark* closing = closing_of(mark);
        if (mark.kind.effect == Effect::opens_answer) {
          if (!closing && !mark.kind.is_token) return "";  // it was not finished
          if (closing) end = closing->begin;               // servers leave out a special token at the end
          out_.clear();
          continue;
        }
        if (!closing || closing->end > end) return "";  // the model never stopped thinking
        at = closing->end;
        i = static_cast<size_t>(closing - marks_.data()) + 1;
        thinks_.insert(mark.kind.name);
        continue;
      }
      if (mark.kind.effect == Effect::calls_tool) return "";
      apply(mark, at);
    }
    if (!has_ended_) out_ += text_.substr(at, end - at);
    return without_last_tags(out_);
  }

 private:
  static bool is_opening(const Mark& m) {
    return m.kind.effect == Effect::opens_thought || m.kind.effect == Effect::opens_answer;
  }
  static bool is_closing(const Mark& m) {
    return m.kind.effect == Effect::closes_thought || m.kind.effect == Effect::closes_answer;
  }

  bool is_at_beginning() const { return trimmed(out_).empty(); }
  bool begins_line(const Mark& mark) const {
    const size_t before = text_.substr(0, mark.begin).find_last_not_of(" \t");
    return before == std::string_view::npos || text_[before] == '\n';
  }
  bool begins_sentence(const Mark& mark) const {
    return begins_line(mark) || has_ended_sentence(trimmed(text_.substr(0, mark.begin)));
  }
  bool ends_line(const Mark& mark) const {
    const size_t after = text_.find_first_not_of(" \t\r", mark.end);
    return after == std::string_view::npos || text_[after] == '\n' || mark.is_last;
  }
  // Whether a closing mark is at the end of a thought, not within a sentence.
  bool ends_thought(const Mark& mark) const {
    const bool is_apart = mark.begin > 0 && kSpace.find(text_[mark.begin - 1]) != std::string_view::npos;
    return !is_apart || begins_sentence(mark) || ends_line(mark);
  }
  bool is_closed(const Mark& mark) const {
    const auto last = last_closing_.find(mark.kind.name);
    return last != last_closing_.end() && last->second > mark.begin;
  }

  // Null if the block does not end. Blocks of the same name may be in it.
  const Mark* closing_of(const Mark& mark) const {
    int depth = 1;
    for (const Mark* at = &mark + 1; is_closed(mark) && at != marks_.data() + marks_.size(); ++at) {
      if (at->kind.name != mark.kind.name) continue;
      depth += is_opening(*at) ? 1 : is_closing(*at) ? -1 : 0;
      if (depth == 0) return at;
    }
    return nullptr;
  }

  // Whether a mark of this name that is a word of the text has been opened.
  bool is_of_text(std::string_view name) const {
    const auto opened = opened_.find(name);
    return opened != opened_.end() && opened->second > 0;
  }

  bool counts(const Mark& mark) const {
    const auto& [effect, name, is_token] = mark.kind;
    const Mark* closing = nullptr;
    switch (effect) {
      case Effect::opens_thought:
        if (is_token || is_at_beginning()) return is_token || is_sure(name) || closing_of(mark);
        if (thinks_.contains(name)) return is_closed(mark);
        closing = begins_line(mark) ? closing_of(mark) : nullptr;
        return closing && ends_line(*closing);
      case Effect::opens_answer:
        if (is_token || (is_sure(name) && is_at_beginning())) return true;
        closing = begins_sentence(mark) || is_at_beginning() ? closing_of(mark) : nullptr;
        return closing && closing->is_last;
      case Effect::closes_thought:
        return is_token || (is_sure(name) && !is_of_text(name) && ends_thought(mark));
      case Effect::closes_answer:
        return is_token || (mark.is_last && !is_of_text(name));
      case Effect::ends_turn:
        return is_token || (mark.is_last && !(name == "s" && is_of_text(name)));
      case Effect::begins_turn:
        return is_token || is_at_beginning();
      case Effect::calls_tool:
        return is_token || is_at_beginning() || begins_sentence(mark);
      case Effect::none:
        return true;
    }
    return false;
  }

  // Whether a mark that does not count may be one after all.
  bool is_in_doubt(const Mark& mark) const {
    const auto& [effect, name, is_token] = mark.kind;
    if (!is_sure(name)) return false;
    if (effect == Effect::closes_thought) return !is_of_text(name);
    return is_opening(mark) && begins_sentence(mark);
  }

  // at: behind the mark.
  void apply(const Mark& mark, size_t& at) {
    switch (mark.kind.effect) {
      case Effect::closes_thought:  // the opening mark was in the prompt
        out_.clear();
        thinks_.insert(mark.kind.name);
        break;
      case Effect::begins_turn:
        has_ended_ = !is_at_beginning();
        if (!has_ended_) at += role_size(text_.substr(at));
        break;
      case Effect::ends_turn:
        has_ended_ = true;
        break;
      default:
        break;
    }
  }

  const std::string_view text_;
  const std::vector<Mark> marks_;
  std::map<std::string, size_t, std::less<>> last_closing_;  // begin, by name
  std::map<std::string, int, std::less<>> opened_;  // marks that are words of the text, less the closing ones
  std::set<std::string, std::less<>> thinks_;       // names of the thoughts that were removed
  std::string out_;
  bool has_ended_ = false;
};

}  // namespace

std::string said_to_reader(std::string_view text) { return Reading(final_channel(trimmed(text))).said(); }

}  // namespace kinora::endpoint
