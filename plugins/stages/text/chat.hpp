// Chats as prompts, in the layouts of published chat templates.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tokenizer.hpp"

namespace kinora::text {

// How a template writes a chat. Tokens are between \1 and \1, the rest is text: "\1<|im_start|>\1user\n".
struct ChatLayout {
  struct Turn {
    std::string head;       // before the content, and for the assistant the end of a prompt
    std::string lead = {};  // belongs to the content
    std::string tail = {};  // its first token, or all of it if it has none, closes the content
  };
  std::string name;
  std::string begin;
  Turn system, user, assistant;
  std::optional<std::string> default_system = {};  // if the chat begins with another role
  bool trims = false;                              // the content loses the white space around it
};

std::vector<std::string> layout_names();
// Throws Error for a name that is not known.
ChatLayout find_layout(const std::string& name);
// Recognises a published template in Jinja, in any spelling; its default system text is taken from it. Throws an
// Error that begins with `where` and lists layout_names() for any template whose prompts are not known to be ours.
ChatLayout recognise_layout(const std::string& jinja, const std::string& where);

struct Prompt {
  std::string text;
  std::vector<int64_t> ids;
  std::vector<int64_t> labels;  // if wanted: ids of answers and of what closes them, else -100
  std::vector<int64_t> media;   // pairs: position of an item's first id, number of its ids
};

// [any-thread] after construction.
class ChatPrompts {
 public:
  // Throws Error if the tokenizer, which errors call `name`, lacks a token of the layout.
  ChatPrompts(ChatLayout layout, std::unique_ptr<Tokenizer> tokenizer, const std::string& name);
  // chat: JSON, [{"role", "content"}] or an object with that as `messages`; content is a text or a list of
  // {"type": "text", "text"}, {"type": "image"} and {"type": "video"}. A chat that does not end with an answer gets
  // the head of one. An image or a video is one id. Texts never become a special token. Throws
  // Error(KINORA_ERROR_DATA) for other chats, and with `labels` for one without
  // an answer, or whose answer begins within an id.
  Prompt make(std::string_view chat, bool labels) const;

 private:
  struct Part {
    std::string text;
    bool token, answer, media;
  };
  using Parts = std::vector<Part>;
  static void add_text(const std::string& text, bool answer, Parts& out);
  static void add_layout(std::string_view layout, bool answer, Parts& out);
  void add_media(const std::string& kind, const std::string& where, Parts& out) const;
  void add_message(const std::string& role, const Json& content, const std::string& where, Parts& out) const;
  Parts parts_of_chat(std::string_view chat) const;
  void add_ids(std::span<const Part> texts, bool labels, Prompt& out) const;
  bool reserve(const std::string& token);

  ChatLayout layout_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string image_, video_;              // tokens; empty: the tokenizer has none
  std::map<int64_t, std::string> tokens_;  // of the layout and of media
};

}  // namespace kinora::text
