// A component describes itself once; the description becomes its manifest entry and reads its options.
#pragma once
#include <charconv>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kinora/abi/options.h"
#include "kinora/error.hpp"

KINORA_SDK_BEGIN

namespace kinora {
namespace detail {

inline const kinora_options_api& options_api() {
  static const auto& api = interface<kinora_options_api>(KINORA_INTERFACE_OPTIONS);
  return api;
}

inline std::string toml_string(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {  // TOML allows no other control character unescaped
      constexpr const char* hex = "0123456789ABCDEF";
      out += {'\\', 'u', '0', '0', hex[(c >> 4) & 15], hex[c & 15]};
    }
  }
  return out + '"';
}

// Shortest text that reads back as the same double, and that TOML reads as a float.
inline std::string toml_float(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, v).ptr;
  std::string out(text, end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

template <class M>
struct OptionType;
template <>
struct OptionType<int64_t> {
  static constexpr const char* name = "int";
  static std::string toml(int64_t v) { return std::to_string(v); }
  static int64_t read(const kinora_options* o, const char* n, int64_t i) {
    int64_t v = 0;
    check(options_api().get_int(o, n, i, &v));
    return v;
  }
};
template <>
struct OptionType<double> {
  static constexpr const char* name = "float";
  static std::string toml(double v) { return toml_float(v); }
  static double read(const kinora_options* o, const char* n, int64_t i) {
    double v = 0;
    check(options_api().get_float(o, n, i, &v));
    return v;
  }
};
template <>
struct OptionType<bool> {
  static constexpr const char* name = "bool";
  static std::string toml(bool v) { return v ? "true" : "false"; }
  static bool read(const kinora_options* o, const char* n, int64_t i) {
    return OptionType<int64_t>::read(o, n, i) != 0;
  }
};
template <>
struct OptionType<std::string> {
  static constexpr const char* name = "string";
  static std::string toml(const std::string& v) { return toml_string(v); }
  static std::string read(const kinora_options* o, const char* n, int64_t i) {
    kinora_str v{};
    check(options_api().get_string(o, n, i, &v));
    return std::string(view(v));
  }
};
template <class E>
struct OptionType<std::vector<E>> {
  static constexpr const char* name = std::is_same_v<E, int64_t>  ? "ints"
                                      : std::is_same_v<E, double> ? "floats"
                                                                  : "strings";
  static std::string toml(const std::vector<E>& v) {
    std::string out = "[";
    for (size_t i = 0; i < v.size(); ++i) out += (i ? ", " : "") + OptionType<E>::toml(v[i]);
    return out + "]";
  }
};

template <class M>
void read_option(M& out, const kinora_options* o, const char* name) {
  out = OptionType<M>::read(o, name, 0);
}
template <class E>
void read_option(std::vector<E>& out, const kinora_options* o, const char* name) {
  int64_t n = 0;
  check(options_api().count(o, name, &n));
  out.clear();
  for (int64_t i = 0; i < n; ++i) out.push_back(OptionType<E>::read(o, name, i));
}

}  // namespace detail

// One option's line in the manifest. Ranges are inclusive; above / below are exclusive bounds.
class OptionLine {
 public:
  OptionLine(std::string name, std::string type, std::string value)
      : name_(std::move(name)), type_(std::move(type)), default_(std::move(value)) {}
  OptionLine& range(double low, double high) { return limit("min", low).limit("max", high); }
  OptionLine& at_least(double low) { return limit("min", low); }
  OptionLine& above(double low) { return limit("above", low); }
  OptionLine& below(double high) { return limit("below", high); }
  OptionLine& unit(std::string_view u) { return entry("unit", detail::toml_string(u)); }
  OptionLine& help(std::string_view h) { return entry("help", detail::toml_string(h)); }
  OptionLine& choices(const std::vector<std::string>& c) {
    return entry("choices", detail::OptionType<std::vector<std::string>>::toml(c));
  }
  // Where a published config.json stores it, if not under the option's own name: "num_attention_heads",
  // "patch_size[0]", "vision_config.hidden_size ?? 768" (768 if vision_config does not have it),
  // "extra_pos_embed_type == learnable" (a bool). The first that exists is used.
  OptionLine& config(const std::vector<std::string>& lines) {
    return entry("config", detail::OptionType<std::vector<std::string>>::toml(lines));
  }
  // A string that names a file or folder: made absolute against the run file's folder.
  OptionLine& path() { return type("path"); }
  // An int that counts bytes: TOML may say "64 MiB".
  OptionLine& bytes() { return type("size"); }
  // The TOML must set it; the default is only an example.
  OptionLine& required() { return entry("required", "true"); }
  // The option changes how the work is done or how often it logs, never the result.
  OptionLine& how_only() { return entry("how_only", "true"); }
  // A stage drops samples outside of it. A default of 1e300 or -1e300 drops nothing; `kinora check` warns of
  // a filter all of whose bounds drop nothing.
  OptionLine& bound() { return entry("bound", "true"); }

  const std::string& name() const { return name_; }
  std::string toml() const {
    return "option." + name_ + " = { type = " + detail::toml_string(type_) + ", default = " + default_ +
           rest_ + " }\n";
  }

 private:
  OptionLine& entry(const char* key, const std::string& value) {
    rest_ += std::string(", ") + key + " = " + value;
    return *this;
  }
  OptionLine& limit(const char* key, double v) {
    const bool whole = type_ == "int" || type_ == "size" || type_ == "ints";
    return entry(key, whole ? std::to_string(static_cast<int64_t>(v)) : detail::toml_float(v));
  }
  OptionLine& type(const char* t) {
    type_ = t;
    return *this;
  }
  std::string name_, type_, default_, rest_;
};

// A naming scheme of published weights, see abi/layout.h. `ours`: the parameter's name from the layout's, ""
// drops the tensor; `theirs`: the inverse. Either one is enough to read the layout, `theirs` to write it.
// Neither: the names are the component's own.
struct Layout {
  using Rename = std::function<std::string(std::string)>;
  std::string name, help;
  Rename ours, theirs;
};

// When a tensor is there. `kinora check` uses it to find stages that read what no stage before them makes.
struct Presence {
  std::string_view when =
      "";  // "sample_fps": only while this option is set; "from == frames": only while it has this value
  std::string_view per = "";  // "clip": the stage cuts its sample into clips, and each of them has the tensor
  bool optional = false;      // an input that the component works without
};

// A component's description of itself: name, help, options with their members, tensors in and out.
template <class Options>
class Describe {
 public:
  Describe& name(std::string_view n) { return set(name_, n); }
  Describe& help(std::string_view h) { return set(help_, h); }
  // A name that the component had before: the error for a run file that still uses it names the new one.
  Describe& formerly(std::string_view n) {
    former_.emplace_back(n);
    return *this;
  }
  // Something that a host must understand to use the component; one that does not disables it. "eager": a model whose
  // forward must not be recorded as a CUDA graph, because it waits for the device or depends on values.
  Describe& needs(std::string_view word) {
    needs_.emplace_back(word);
    return *this;
  }
  // Declares that a stage uses run.seed() or run.noise(). A curate job without such a stage gets the seed 0, so its
  // results stay when the run's seed changes.
  Describe& draws() {
    draws_ = true;
    return *this;
  }
  // Raise it when the same options and inputs give other results than before: finished jobs that use the
  // component then run again. A new version that leaves it, or has none (1), keeps them.
  Describe& results(int64_t number) {
    results_ = number;
    return *this;
  }
  // States how readers see the score that the stage notes (note_score of kinora/curation.hpp) under this
  // name: its title, and the unit of its numbers, "" for none. The studio and the report of a run use them.
  Describe& score(std::string_view n, std::string_view title, std::string_view unit = "") {
    scores_.push_back("score." + detail::toml_string(n) + " = { title = " + detail::toml_string(title) +
                      (unit.empty() ? "" : ", unit = " + detail::toml_string(unit)) + " }\n");
    return *this;
  }
  // A tensor of the interface, as `kinora apply` and `plugins inspect` name it; shape as "[B, C, T, H, W]".
  Describe& input(std::string_view n, std::string_view shape, std::string_view dtype,
                  std::string_view help = "", const Presence& presence = {}) {
    return tensor("input", n, shape, dtype, help, presence);
  }
  Describe& output(std::string_view n, std::string_view shape, std::string_view dtype,
                   std::string_view help = "", const Presence& presence = {}) {
    return tensor("output", n, shape, dtype, help, presence);
  }
  // For a model or tokenizer: published names of its parameters, for `kinora convert` and wherever weights
  // are loaded.
  Describe& layout(std::string_view n, std::string_view help, Layout::Rename ours = nullptr,
                   Layout::Rename theirs = nullptr) {
    layouts_.push_back({std::string(n), std::string(help), std::move(ours), std::move(theirs)});
    return *this;
  }
  const std::vector<Layout>& layouts() const { return layouts_; }
  // The default is the member's initial value; Base may be Options or a base of it.
  template <class Base, class M>
  OptionLine& option(const char* name, M Base::*member) {
    options_.push_back(
        {OptionLine(name, detail::OptionType<M>::name, detail::OptionType<M>::toml(defaults_.*member)),
         [name = std::string(name), member](Options& to, const kinora_options* from) {
           detail::read_option(to.*member, from, name.c_str());
         }});
    return options_.back().line;
  }

  std::string id(const char* kind) const { return std::string(kind) + "/" + name_; }
  // The manifest's entry. It names the interface if that is a draft, which only one Kinora has exactly so.
  std::string toml(const char* kind, std::string_view interface_id = "") const {
    std::string out = "[[component]]\nid = " + detail::toml_string(id(kind)) +
                      "\nhelp = " + detail::toml_string(help_) + "\n";
    if (interface_id.find("-draft.") != interface_id.npos)
      out += "interface = " + detail::toml_string(interface_id) + "\n";
    if (!former_.empty())
      out += "formerly = " + detail::OptionType<std::vector<std::string>>::toml(former_) + "\n";
    if (!needs_.empty())
      out += "needs = " + detail::OptionType<std::vector<std::string>>::toml(needs_) + "\n";
    if (draws_) out += "draws = true\n";
    if (results_ != 1) out += "results = " + std::to_string(results_) + "\n";
    for (const auto& t : tensors_) out += t;
    for (const auto& s : scores_) out += s;
    for (const auto& l : layouts_)
      out += "layout." + l.name + " = { help = " + detail::toml_string(l.help) + " }\n";
    for (const auto& o : options_) out += o.line.toml();
    return out;
  }
  Options read(const kinora_options* from) const {
    Options to;
    for (const auto& o : options_) o.read(to, from);
    return to;
  }

 private:
  struct Entry {
    OptionLine line;
    std::function<void(Options&, const kinora_options*)> read;
  };
  Describe& set(std::string& to, std::string_view from) {
    to = from;
    return *this;
  }
  Describe& tensor(const char* way, std::string_view n, std::string_view shape, std::string_view dtype,
                   std::string_view help, const Presence& presence) {
    std::string line = std::string(way) + "." + std::string(n) + " = { shape = " + detail::toml_string(shape);
    const auto entry = [&](const char* key, std::string_view value) {
      if (!value.empty()) line += std::string(", ") + key + " = " + detail::toml_string(value);
    };
    entry("dtype", dtype);
    entry("per", presence.per);
    entry("when", presence.when);
    if (presence.optional) line += ", optional = true";
    entry("help", help);
    tensors_.push_back(line + " }\n");
    return *this;
  }
  Options defaults_{};
  std::string name_, help_;
  std::vector<std::string> former_, needs_, tensors_, scores_;
  std::vector<Layout> layouts_;
  bool draws_ = false;
  int64_t results_ = 1;
  std::deque<Entry> options_;  // a deque: option() returns references
};

template <class T>
Describe<typename T::Options> described() {
  Describe<typename T::Options> d;
  T::describe(d);
  return d;
}

// Sets an option to the value of a model's named size. A value that differs from the default was set by the
// user and stays; if it does not fit the rest, the check of all options rejects it.
template <class Options, class T, class V>
void preset(Options& options, T Options::*option, const V& value) {
  static const Options by_default;
  if (options.*option == by_default.*option) options.*option = value;
}

}  // namespace kinora

KINORA_SDK_END
