#include "chat.hpp"

#include <algorithm>

#include "json_text.hpp"

namespace kinora::text {
namespace {

constexpr char kMark = '\1';
constexpr int64_t kNoLabel = -100;  // torch's cross entropy ignores it
// Qwen's tokens around the token of an image or a video.
constexpr const char* kBeforePad = "<|vision_start|>";
constexpr const char* kAfterPad = "<|vision_end|>";

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(KINORA_ERROR_DATA, where + ": " + what);
}

// Calls take(text, whether it is a token) for each part of a layout's string.
template <class Take>
void for_each_part(std::string_view layout, Take take) {
  for (bool token = false;; token = !token) {
    const size_t end = layout.find(kMark);
    if (const auto part = layout.substr(0, end); !part.empty()) take(std::string(part), token);
    if (end == layout.npos) return;
    layout.remove_prefix(end + 1);
  }
}

std::string trimmed(const std::string& text, bool left, bool right) {
  return read_normalizer(Json{{"type", "Strip"}, {"strip_left", left}, {"strip_right", right}}, "")(text);
}

struct ContentPart {
  std::string kind;  // text, image or video
  std::string text = {};
};

std::vector<ContentPart> parts_of(const Json& content, const std::string& where) {
  if (content.is_string()) return {{"text", content.get<std::string>()}};
  if (!content.is_array()) refuse(where, "'content' must be a text or a list of parts");
  std::vector<ContentPart> out;
  for (const auto& part : content) {
    const Json type = part.is_object() ? part.value("type", Json()) : Json();
    if (type == "text" && part.contains("text") && part["text"].is_string()) {
      out.push_back({"text", part["text"].get<std::string>()});
    } else if (type == "image" || type == "image_url") {
      out.push_back({"image"});
    } else if (type == "video" || type == "video_url") {
      out.push_back({"video"});
    } else {
      refuse(where,
             "a part of 'content' must be {\"type\": \"text\", \"text\": ...}, {\"type\": \"image\"} or "
             "{\"type\": \"video\"}");
    }
  }
  return out;
}

}  // namespace

bool ChatPrompts::reserve(const std::string& token) {
  const auto id = tokenizer_->id_of(token);
  if (id) tokens_.emplace(*id, token);
  return id.has_value();
}

ChatPrompts::ChatPrompts(ChatLayout layout, std::unique_ptr<Tokenizer> tokenizer, const std::string& name)
    : layout_(std::move(layout)), tokenizer_(std::move(tokenizer)) {
  for (const auto& t : {ChatLayout::Turn{layout_.begin}, layout_.system, layout_.user, layout_.assistant})
    for_each_part(t.head + kMark + kMark + t.tail, [&](const std::string& part, bool is_token) {
      if (is_token && !reserve(part))
        throw Error(KINORA_ERROR_INVALID, name + ": the tokenizer has no token '" + part +
                                              "', which the template '" + layout_.name +
                                              "' writes; set another template");
    });
  for (const char* image : {"<image>", "<|image_pad|>"})
    if (image_.empty() && reserve(image)) image_ = image;
  for (const char* video : {"<vila/video>", "<video>", "<|video_pad|>"})
    if (video_.empty() && reserve(video)) video_ = video;
  reserve(kBeforePad);
  reserve(kAfterPad);
}

void ChatPrompts::add_text(const std::string& text, bool answer, Parts& out) {
  if (text.empty()) return;
  if (!out.empty() && !out.back().token && out.back().answer == answer) {
    out.back().text += text;
  } else {
    out.push_back({text, false, answer, false});
  }
}

// The tail closes an answer with its first token, or with all of its text.
void ChatPrompts::add_layout(std::string_view layout, bool answer, Parts& out) {
  for_each_part(layout, [&](const std::string& part, bool is_token) {
    if (is_token) {
      out.push_back({part, true, answer, false});
      answer = false;
    } else {
      add_text(part, answer, out);
    }
  });
}

void ChatPrompts::add_media(const std::string& kind, const std::string& where, Parts& out) const {
  const std::string& token = kind == "image" ? image_ : video_;
  if (token.empty())
    refuse(where, "the tokenizer has no token for " + kind + "s, such as <|" + kind +
                      "_pad|>; give the folder of a model that reads them");
  const bool is_pad = token.ends_with("_pad|>");
  if (is_pad) out.push_back({kBeforePad, true, false, false});
  out.push_back({token, true, false, true});
  if (is_pad) out.push_back({kAfterPad, true, false, false});
}

void ChatPrompts::add_message(const std::string& role, const Json& content, const std::string& where,
                              Parts& out) const {
  const bool answer = role == "assistant";
  if (!answer && role != "user" && role != "system")
    refuse(where, "the role '" + role + "' is not known; the known ones are system, user and assistant");
  const auto& turn = answer ? layout_.assistant : role == "user" ? layout_.user : layout_.system;
  auto parts = parts_of(content, where);
  if (layout_.trims && !parts.empty()) {
    parts.front().text = trimmed(parts.front().text, true, false);
    parts.back().text = trimmed(parts.back().text, false, true);
  }
  add_layout(turn.head, false, out);
  add_text(turn.lead, answer, out);
  for (const auto& part : parts)
    if (part.kind == "text") {
      add_text(part.text, answer, out);
    } else {
      add_media(part.kind, where, out);
    }
  add_layout(turn.tail, answer, out);
}

ChatPrompts::Parts ChatPrompts::parts_of_chat(std::string_view chat) const {
  Json messages = parse_json(chat);
  if (messages.is_object()) messages = Json(messages.value("messages", Json()));
  if (!messages.is_array() || messages.empty())
    refuse("the chat", R"(expected JSON, [{"role": "user", "content": "..."}, ...])");
  Parts out;
  add_layout(layout_.begin, false, out);
  std::string role;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = "message " + std::to_string(i + 1) + " of the chat";
    const Json& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content"))
      refuse(where, R"(expected {"role": "user", "content": "..."})");
    role = message["role"].get<std::string>();
    if (i == 0 && role != "system" && layout_.default_system)
      add_message("system", *layout_.default_system, where, out);
    add_message(role, message["content"], where, out);
  }
  if (role != "assistant") add_layout(layout_.assistant.head, false, out);
  return out;
}

// Adds the ids of neighbouring texts, which are tokenized as one.
void ChatPrompts::add_ids(std::span<const Part> texts, bool labels, Prompt& out) const {
  const bool first = out.ids.empty();
  std::string text;
  for (const Part& p : texts) text += p.text;
  const auto ids = tokenizer_->ordinary(text, first);
  for (const int64_t id : ids)
    if (const auto it = tokens_.find(id); it != tokens_.end())
      refuse("the chat",
             "a text contains '" + it->second +
                 "', which is a token of the prompt's layout; remove it, or write media as parts of "
                 "'content'");
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  out.text += text;
  size_t begin = 0, bytes = 0;
  for (size_t i = 0; labels && i < texts.size(); ++i) {
    bytes += texts[i].text.size();
    const auto before = i + 1 < texts.size() ? tokenizer_->ordinary(text.substr(0, bytes), first) : ids;
    if (before.size() > ids.size() || !std::equal(before.begin(), before.end(), ids.begin()))
      refuse("the chat",
             "one id covers an end of an answer and the text next to it; begin the answer with a letter");
    for (; begin < before.size(); ++begin) out.labels.push_back(texts[i].answer ? ids[begin] : kNoLabel);
  }
}

Prompt ChatPrompts::make(std::string_view chat, bool labels) const {
  Prompt out;
  const Parts parts = parts_of_chat(chat);
  for (size_t i = 0; i < parts.size();) {
    if (!parts[i].token) {
      size_t end = i;
      while (end < parts.size() && !parts[end].token) ++end;
      add_ids(std::span(parts).subspan(i, end - i), labels, out);
      i = end;
      continue;
    }
    const auto id = tokenizer_->id_of(parts[i].text).value();
    if (parts[i].media) out.media.insert(out.media.end(), {static_cast<int64_t>(out.ids.size()), 1});
    out.ids.push_back(id);
    if (labels) out.labels.push_back(parts[i].answer ? id : kNoLabel);
    out.text += parts[i++].text;
  }
  if (labels && std::all_of(out.labels.begin(), out.labels.end(), [](int64_t id) { return id == kNoLabel; }))
    refuse("the chat", "it has no answer to learn; add a message of the assistant, or set labels = false");
  return out;
}

}  // namespace kinora::text
