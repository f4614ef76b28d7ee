#include "markup.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

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
  none          // a special token without meaning for the reader
};

struct Mark {
  size_t size = 0;  // in bytes
  Effect effect = Effect::none;
};

template <size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Names are those of the templates of Qwen, DeepSeek, GLM, Kimi, Llama, Gemma, Mistral, Phi, Cohere, Seed, SmolVLM,
// InternVL and gpt-oss, in lower case and without brackets, bars and the slash of a closing one.
constexpr std::array<std::string_view, 11> kThoughts = {"think",      "thinking",   "thought",    "thoughts",
                                                        "reason",     "reasoning",  "reflection", "analysis",
                                                        "scratchpad", "of_thought", "planning"};
constexpr std::array<std::string_view, 5> kAnswers = {"answer", "final_answer", "response", "solution",
                                                      "of_solution"};
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
constexpr std::array<std::string_view, 8> kSquare = {"think", "/think", "thinking", "/thinking",
                                                     "inst",  "/inst",  "eos",      "bos"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kBrackets = {
    {{"<", ">"}, {"[", "]"}, {"◁", "▷"}}};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// name: without brackets and bars.
std::optional<Effect> effect_of(const std::string& name, bool is_in_bars) {
  const bool is_closing = name.starts_with('/');
  std::string_view bare(name);
  if (is_closing) bare.remove_prefix(1);
  bool ends = is_closing;
  for (const std::string_view before : {"begin_", "start_", "end_"})
    if (bare.starts_with(before) && bare.size() > before.size()) {
      const auto rest = bare.substr(before.size());
      if (!is_one_of(rest, kThoughts) && !is_one_of(rest, kAnswers)) break;
      ends = before == "end_";
      bare = rest;
    }
  if (is_one_of(bare, kThoughts)) return ends ? Effect::closes_thought : Effect::opens_thought;
  if (is_one_of(bare, kAnswers)) return ends ? Effect::closes_answer : Effect::opens_answer;
  const bool is_word = !is_in_bars && is_one_of(name, kOnlyInBars);
  if (!is_word && is_one_of(name, kEnds)) return Effect::ends_turn;
  if (!is_word && is_one_of(name, kBegins)) return Effect::begins_turn;
  return is_in_bars ? std::optional(Effect::none) : std::nullopt;
}

// The mark that `text` begins with.
std::optional<Mark> mark_at(std::string_view text) {
  constexpr size_t kLongest = 48;
  for (const auto& [open, close] : kBrackets) {
    if (!text.starts_with(open)) continue;
    const size_t end = text.substr(0, kLongest).find(close, open.size());
    if (end == std::string_view::npos) return std::nullopt;
    const size_t size = end + close.size();
    const std::string_view inside = text.substr(open.size(), end - open.size());
    if (inside.find_first_of(" \t\r\n<[{\"") != std::string_view::npos) return std::nullopt;
    if (inside == "|channel")
      return Mark{size, Effect::opens_thought};  // Gemma; gpt-oss has bars on both sides
    if (inside == "channel|") return Mark{size, Effect::closes_thought};
    if (inside == "turn|") return Mark{size, Effect::ends_turn};
    if (inside == "|turn") return Mark{size, Effect::begins_turn};
    std::string name = replaced(replaced(lower_case(std::string(inside)), "｜", "|"), "▁", "_");
    const bool is_in_bars = name.size() > 2 && name.front() == '|' && name.back() == '|';
    if (is_in_bars) name = name.substr(1, name.size() - 2);
    if (const size_t colon = name.find(':'); colon != std::string::npos)  // <seed:think>, </seed:think>
      name = (name.starts_with('/') ? "/" : "") + name.substr(colon + 1);
    if (open == "[" && !is_one_of(name, kSquare)) return std::nullopt;
    const auto effect = effect_of(name, is_in_bars);
    return effect ? std::optional(Mark{size, *effect}) : std::nullopt;
  }
  return std::nullopt;
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

// Without tags at the end that close nothing: end marks of models that are not listed.
std::string without_last_tags(std::string_view text) {
  while (true) {
    text = trimmed(text);
    const size_t open = text.ends_with('>') ? text.rfind('<') : std::string_view::npos;
    if (open == std::string_view::npos) break;
    const std::string_view tag = text.substr(open + 1, text.size() - open - 2);
    if (tag.empty() || tag.find_first_of(" \t\r\n") != std::string_view::npos) break;
    if (tag.starts_with('/') && text.find("<" + std::string(tag.substr(1))) < open) break;
    text = text.substr(0, open);
  }
  return std::string(text);
}

}  // namespace

std::string said_to_reader(std::string_view text) {
  text = final_channel(trimmed(text));
  std::string out;
  std::optional<std::string> answer;
  int depth = 0;  // of thoughts
  for (bool has_ended = false; !text.empty() && !has_ended;) {
    const auto mark = mark_at(text);
    if (!mark) {
      if (depth == 0) out += text.front();
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(mark->size);
    const bool is_thought = mark->effect == Effect::opens_thought || mark->effect == Effect::closes_thought;
    if (depth > 0 && !is_thought) continue;
    switch (mark->effect) {
      case Effect::opens_thought:
        ++depth;
        break;
      case Effect::closes_thought:
        if (depth == 0) out.clear();  // the opening mark was in the prompt
        depth = std::max(0, depth - 1);
        break;
      case Effect::opens_answer:
        out.clear();
        break;
      case Effect::closes_answer:
        answer = std::exchange(out, {});
        break;
      case Effect::begins_turn:
        has_ended = !trimmed(out).empty();
        if (!has_ended) text.remove_prefix(role_size(text));
        break;
      case Effect::ends_turn:
        has_ended = true;
        break;
      case Effect::none:
        break;
    }
  }
  if (depth > 0) return "";
  return without_last_tags(answer && !trimmed(*answer).empty() ? *answer : out);
}

}  // namespace kinora::endpoint
