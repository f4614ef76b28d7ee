// HTML that is well-formed by construction: elements close themselves, and every text and attribute value is
// escaped, so that nothing a film, a caption or a log says can become markup.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace kinora::core::report {

// The text for an element or a quoted attribute. Bytes that are not UTF-8, control characters and those that
// turn the reading direction of what follows become U+FFFD.
std::string escaped(std::string_view text);

// "data:image/png;base64,..."
std::string data_uri(std::string_view mime, std::string_view bytes);

class Html {
 public:
  using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // <tag ...>, what `inside` writes, </tag>. Tags and attribute names are this program's own words.
  template <class F>
  void in(std::string_view tag, Attributes attributes, F&& inside) {
    open(tag, attributes);
    inside();
    close(tag);
  }
  void leaf(std::string_view tag, Attributes attributes, std::string_view text = {}) {
    in(tag, attributes, [&] { this->text(text); });
  }
  // Elements without an end, such as img and meta.
  void single(std::string_view tag, Attributes attributes) { open(tag, attributes); }
  void text(std::string_view text) { out_ += escaped(text); }
  // Markup of this program: never anything from a file.
  void constant(const char* markup) { out_ += markup; }

  const std::string& str() const { return out_; }

 private:
  void open(std::string_view tag, Attributes attributes);
  void close(std::string_view tag);
  std::string out_;
};

}  // namespace kinora::core::report
