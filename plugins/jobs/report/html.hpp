// Writes HTML that is well-formed by construction: elements close themselves, and all text and attribute
// values are escaped, so that nothing in a video's name, a caption or a log can become markup.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace kinora::core::report {

// Escapes text for an element or a quoted attribute. Invalid UTF-8, control characters and characters that
// change the reading direction become U+FFFD.
std::string escaped(std::string_view text);

// "data:image/png;base64,..."
std::string data_uri(std::string_view mime, std::string_view bytes);

class Html {
 public:
  using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // Writes <tag ...>, what `inside` writes, </tag>. Tags and attribute names must be constants of this
  // program.
  template <class F>
  void in(std::string_view tag, Attributes attributes, F&& inside) {
    open(tag, attributes);
    inside();
    close(tag);
  }
  void leaf(std::string_view tag, Attributes attributes, std::string_view text = {}) {
    in(tag, attributes, [&] { this->text(text); });
  }
  // Writes elements without an end tag, such as img and meta.
  void single(std::string_view tag, Attributes attributes) { open(tag, attributes); }
  void text(std::string_view text) { out_ += escaped(text); }
  // Writes constant markup of this program: never anything from a file.
  void constant(const char* markup) { out_ += markup; }

  const std::string& str() const { return out_; }

 private:
  void open(std::string_view tag, Attributes attributes);
  void close(std::string_view tag);
  std::string out_;
};

}  // namespace kinora::core::report
