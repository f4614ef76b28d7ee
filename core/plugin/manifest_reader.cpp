#include "core/plugin/manifest_reader.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/suggest.hpp"
#include "core/plugin/kinds.hpp"
#include "core/plugin/options.hpp"
#include "core/plugin/tensor_rules.hpp"

namespace kinora::core {

std::string TomlErrors::located(const toml::source_position& place, std::string_view message) const {
  return fmt::format("{}:{}:{}: {}", file_, std::max<uint32_t>(place.line, 1),
                     std::max<uint32_t>(place.column, 1), message);
}

void TomlErrors::keep(const toml::source_position& place, std::string_view message, bool is_warning) {
  lines_.push_back({std::max<uint32_t>(place.line, 1), std::max<uint32_t>(place.column, 1),
                    located(place, message), is_warning});
}

bool TomlErrors::has_errors() const {
  return std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return !line.is_warning; });
}

std::vector<std::string> TomlErrors::lines() {
  std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  std::vector<std::string> out;
  for (auto& line : lines_) out.push_back(line.text);
  return out;
}

std::vector<TomlEntry> in_file_order(const toml::table& table) {
  std::vector<TomlEntry> out;
  for (const auto& [key, node] : table) out.push_back({&key, &node});
  std::stable_sort(out.begin(), out.end(), [](const TomlEntry& a, const TomlEntry& b) {
    const auto p = a.key->source().begin, q = b.key->source().begin;
    return std::tie(p.line, p.column) < std::tie(q.line, q.column);
  });
  return out;
}

const toml::node* TomlTable::node(const char* key) {
  known_.emplace_back(key);
  return table_.get(key);
}

const toml::source_region& TomlTable::place(const char* key) const {
  const auto* n = table_.get(key);
  return n ? n->source() : table_.source();
}

void TomlTable::missing(const char* key) { errors_.add(table_.source(), "{} has no '{}'", what_, key); }

std::string TomlTable::text(const char* key, bool required) {
  const auto* n = node(key);
  if (!n) {
    if (required) missing(key);
    return "";
  }
  if (const auto* s = n->as_string()) return s->get();
  errors_.add(n->source(), "'{}' of {} must be a string", key, what_);
  return "";
}

bool TomlTable::truth(const char* key) {
  const auto* n = node(key);
  if (!n) return false;
  if (const auto* b = n->as_boolean()) return b->get();
  errors_.add(n->source(), "'{}' of {} must be true or false", key, what_);
  return false;
}

std::vector<std::string> TomlTable::texts(const char* key) {
  std::vector<std::string> out;
  const auto* n = node(key);
  if (!n) return out;
  const auto* list = n->as_array();
  if (!list) errors_.add(n->source(), "'{}' of {} must be a list of strings", key, what_);
  for (size_t i = 0; list && i < list->size(); ++i) {
    if (const auto* s = list->get(i)->as_string()) {
      out.push_back(s->get());
    } else {
      errors_.add(list->get(i)->source(), "'{}' of {} must be a list of strings", key, what_);
    }
  }
  return out;
}

const toml::table* TomlTable::table(const char* key) {
  const auto* n = node(key);
  if (n && !n->as_table()) errors_.add(n->source(), "'{}' of {} must be a table", key, what_);
  return n ? n->as_table() : nullptr;
}

void TomlTable::finish() {
  for (const auto& [key, node] : in_file_order(table_)) {
    const std::string name(key->str());
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    errors_.warn(key->source(), fmt::format("unknown key '{}' in {}{}", name, what_,
                                            did_you_mean_or_list(name, known_, "keys")));
  }
}

namespace {

std::optional<json> to_json(const toml::node& node) {
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  const auto* list = node.as_array();
  if (!list) return {};
  json out = json::array();
  for (const auto& item : *list) {
    auto v = to_json(item);
    if (!v) return {};
    out.push_back(std::move(*v));
  }
  return out;
}

class ComponentReader {
 public:
  explicit ComponentReader(Reading reading) : to_(reading) {}

  ComponentSpec read(const toml::table& table) {
    ComponentSpec out;
    TomlTable t(table, "[[component]]", to_.errors);
    out.id = t.text("id", true);
    out.help = t.text("help");
    out.interface = t.text("interface");
    const auto slash = std::min(out.id.find('/'), out.id.size());
    out.kind = out.id.substr(0, slash);
    out.name = out.id.substr(std::min(slash + 1, out.id.size()));
    if (has_text(table, "id")) {
      if (!is_name(out.name))
        to_.errors.add(t.place("id"), "'{}' is not a valid component id; write KIND/NAME, and in both {}",
                       out.id, name_rule);
      check_kind(t, out);
    }
    needs(t, out);
    if (!out.unusable.empty()) return out;  // its other keys may mean what this host does not know
    out.formerly = t.texts("formerly");
    out.draws = t.node("draws") ? t.truth("draws") : out.kind == "job";
    if (const auto* node = t.node("results")) {
      out.results = node->value_exact<int64_t>().value_or(0);
      if (out.results < 1) to_.errors.add(t.place("results"), "'results' must be an integer of at least 1");
    }
    Places conditions;
    out.inputs = tensors(t, "input", out, conditions);
    out.outputs = tensors(t, "output", out, conditions);
    if (const auto* scores = t.table("score"))
      for (const auto& [key, node] : in_file_order(*scores)) score(*key, *node, out);
    if (const auto* layouts = t.table("layout"))
      for (const auto& [key, node] : in_file_order(*layouts)) layout(*key, *node, out);
    if (const auto* options = t.table("option"))
      for (const auto& [key, node] : in_file_order(*options)) option(*key, *node, out);
    for (const auto* all : {&out.inputs, &out.outputs})
      for (const auto& tensor : *all) check_condition(tensor, out, conditions);
    if (out.kind == "job") job(t, out);
    if (is_host_kind(out.kind)) out.has_tensors = t.truth("tensors");
    if (to_.is_known) t.finish();
    return out;
  }

 private:
  using Places = std::map<std::string, toml::source_region>;  // of each tensor's `when`, by the tensor's name

  // Reads the words that a host must understand to use the component.
  void needs(TomlTable& t, ComponentSpec& to) {
    to.needs = t.texts("needs");
    for (const auto& word : to.needs)
      if (word != kNeedsEager)
        disable(t, "needs", to,
                fmt::format("{} needs '{}', which this Kinora does not know; use a newer one", to.id, word));
  }

  // A newer Kinora may know what this one does not: the component alone cannot be used.
  void disable(const TomlTable& t, const char* key, ComponentSpec& of, const std::string& why) {
    if (of.unusable.empty()) of.unusable = to_.errors.located(t.place(key).begin, why);
  }

  // The declarations that only a job has.
  void job(TomlTable& t, ComponentSpec& to) {
    to.reads = t.texts("reads");
    if (t.node("needs_input")) to.needs_input = t.truth("needs_input");
    const auto* slots = t.table("slot");
    if (!slots) return;
    for (const auto& [key, node] : in_file_order(*slots)) slot(*key, *node, to);
  }

  void slot(const toml::key& key, const toml::node& node, ComponentSpec& to) {
    const std::string name(key.str()), what = fmt::format("slot '{}' of {}", name, to.id);
    const auto* table = node.as_table();
    if (!table) return to_.errors.add(node.source(), "{} must be a table {{ kind, ... }}", what);
    if (!is_name(name)) to_.errors.add(key.source(), "'{}' cannot be a slot's name; {}", name, name_rule);
    TomlTable t(*table, what, to_.errors);
    Slot out{.name = name, .kind = t.text("kind", true)};
    if (!out.kind.empty() && !find_kind(out.kind))
      disable(t, "kind", to,
              fmt::format("unknown kind '{}' of {} (a newer Kinora may know it)", out.kind, what));
    out.use = t.text("default");
    out.required = t.truth("required");
    out.list = t.truth("list");
    out.help = t.text("help");
    out.how_only = t.truth("how_only");
    out.weights = t.text("weights");
    out.from = t.text("from");
    if (to_.is_known) t.finish();
    to.slots.push_back(std::move(out));
  }

  // Checks that the option of `when` exists and can have the value.
  void check_condition(const TensorSpec& tensor, const ComponentSpec& of, const Places& places) {
    if (tensor.when.empty()) return;
    const auto& place = places.at(tensor.name);
    const OptionSpec* option = of.option(tensor.when);
    if (!option) {
      std::vector<std::string> names;
      for (const auto& o : of.options) names.push_back(o.name);
      to_.errors.add(place, "'when' of tensor '{}' of {}: unknown option '{}'{}", tensor.name, of.id,
                     tensor.when, did_you_mean_or_list(tensor.when, names, "options"));
      return;
    }
    const auto& known = option->choices;
    if (!tensor.when_value.empty() && !known.empty() &&
        std::find(known.begin(), known.end(), tensor.when_value) == known.end())
      to_.errors.add(place, "'when' of tensor '{}' of {}: '{}' is not among the choices of option '{}'",
                     tensor.name, of.id, tensor.when_value, tensor.when);
  }

  // "sample_fps" or "from == frames".
  static void condition(const std::string& text, TensorSpec& to) {
    const auto equals = text.find(" == ");
    to.when = text.substr(0, equals);
    if (equals != text.npos) to.when_value = text.substr(equals + 4);
  }

  void check_kind(const TomlTable& t, ComponentSpec& c) {
    if (!to_.is_known) return;
    if (const auto* kind = find_kind(c.kind)) {
      if (c.kind != "engine" && is_host_kind(c.kind) != (to_.tier == Tier::host))
        to_.errors.add(t.place("id"),
                       "component '{}': jobs and services belong to tier \"host\", engines may, others do not", c.id);
      c.unusable = why_other_interface(c, *kind);
      return;
    }
    std::vector<std::string> names;
    for (const auto& k : kinds()) names.emplace_back(k.name);
    c.unusable = to_.errors.located(
        t.place("id").begin, fmt::format("unknown kind '{}' of component '{}' (a newer Kinora may know it){}",
                                         c.kind, c.id, did_you_mean_or_list(c.kind, names, "kinds")));
  }

  static std::string why_other_interface(const ComponentSpec& c, const Kind& kind) {
    const std::string_view here = kind.interface;
    if (kind.accepts(c.interface) || (c.interface.empty() && !is_draft(here))) return "";
    const std::string built =
        c.interface.empty() ? "does not name the draft that it is built for" : "is built for " + c.interface;
    return fmt::format("{} {}, this Kinora has {}; build the plugin again with this Kinora's SDK", c.id,
                       built, here);
  }

  std::vector<TensorSpec> tensors(TomlTable& from, const char* way, ComponentSpec& of, Places& conditions) {
    const std::string& owner = of.id;
    std::vector<TensorSpec> out;
    const auto* table = from.table(way);
    if (!table) return out;
    for (const auto& [key, node] : in_file_order(*table)) {
      const std::string name(key->str());
      const auto* fields = node->as_table();
      if (!fields) {
        to_.errors.add(node->source(), "{} '{}' of {} must be a table {{ shape, dtype, help }}", way, name,
                       owner);
        continue;
      }
      TomlTable t(*fields, fmt::format("{} '{}' of {}", way, name, owner), to_.errors);
      TensorSpec made;
      made.name = name;
      made.shape = t.text("shape", true);
      made.dtype = t.text("dtype", true);
      check_rules(t, fmt::format("{} '{}' of {}", way, name, owner), made, of);
      made.help = t.text("help");
      made.per = t.text("per");
      if (!made.per.empty() && made.per != "clip")
        disable(t, "per", of,
                fmt::format(
                    "'per' of {} '{}' of {} is \"{}\" (a newer Kinora may know it); this one knows \"clip\"",
                    way, name, owner, made.per));
      condition(t.text("when"), made);
      if (!made.when.empty()) conditions.emplace(name, t.place("when"));
      if (std::string_view(way) == "input") made.is_optional = t.truth("optional");
      out.push_back(std::move(made));
      if (to_.is_known) t.finish();
    }
    return out;
  }

  void check_rules(const TomlTable& t, const std::string& what, const TensorSpec& tensor, ComponentSpec& of) {
    const auto& known = tensor_dtypes();
    if (!tensor.dtype.empty() && std::find(known.begin(), known.end(), tensor.dtype) == known.end())
      disable(t, "dtype", of,
              fmt::format("unknown dtype '{}' of {} (a newer Kinora may know it); dtypes: {}", tensor.dtype,
                          what, fmt::join(known, ", ")));
    if (!is_tensor_shape(tensor.shape))
      disable(t, "shape", of, fmt::format("shape '{}' of {}: {}", tensor.shape, what, tensor_shape_rule));
  }

  void score(const toml::key& key, const toml::node& node, ComponentSpec& to) {
    const std::string name(key.str()), what = fmt::format("score '{}' of {}", name, to.id);
    const auto* table = node.as_table();
    if (!table) return to_.errors.add(node.source(), "{} must be a table {{ title, unit }}", what);
    TomlTable t(*table, what, to_.errors);
    to.scores.push_back({name, t.text("title", true), t.text("unit")});
    if (to_.is_known) t.finish();
  }

  void layout(const toml::key& key, const toml::node& node, ComponentSpec& to) {
    const std::string name(key.str()), what = fmt::format("layout '{}' of {}", name, to.id);
    const auto* table = node.as_table();
    if (!table) return to_.errors.add(node.source(), "{} must be a table {{ help }}", what);
    if (!is_name(name)) to_.errors.add(key.source(), "'{}' is not a valid layout name; {}", name, name_rule);
    if (name == "kinora")
      to_.errors.add(key.source(), "{}: 'kinora' is reserved for the component's own names", what);
    TomlTable t(*table, what, to_.errors);
    to.layouts.push_back({name, t.text("help")});
    if (to_.is_known) t.finish();
  }

  void option(const toml::key& key, const toml::node& node, ComponentSpec& to) {
    OptionSpec out;
    out.name = std::string(key.str());
    const std::string what = fmt::format("option '{}' of {}", out.name, to.id);
    const auto* table = node.as_table();
    if (!table) return to_.errors.add(node.source(), "{} must be a table {{ type, default, ... }}", what);
    if (!is_name(out.name))
      to_.errors.add(key.source(), "'{}' is not a valid option name; {}", out.name, name_rule);
    const bool is_of_jobs = out.name == "name" || out.name == "kind" || out.name == "input";
    if (out.name == "use" || (to.kind == "job" && is_of_jobs))
      to_.errors.add(key.source(), "{}: run files reserve this word; give the option another name", what);
    TomlTable t(*table, what, to_.errors);
    const bool typed = option_type(t, out, to);
    if (!to.unusable.empty()) return to.options.push_back(std::move(out));
    out.min = number(t, "min");
    out.max = number(t, "max");
    out.above = number(t, "above");
    out.below = number(t, "below");
    out.unit = t.text("unit");
    out.help = t.text("help");
    out.choices = t.texts("choices");
    out.required = t.truth("required");
    out.how_only = t.truth("how_only");
    out.is_bound = t.truth("bound");
    out.config = t.texts("config");
    const auto* value = t.node("default");
    if (!value) {
      t.missing("default");
    } else if (typed) {
      default_of(*value, out, to.id);
    }
    if (to_.is_known) t.finish();
    to.options.push_back(std::move(out));
  }

  bool option_type(TomlTable& t, OptionSpec& out, ComponentSpec& of) {
    const std::string type = t.text("type", true);
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(OptionType::paths); ++i) {
      names.emplace_back(type_name(static_cast<OptionType>(i)));
      if (names.back() == type) {
        out.type = static_cast<OptionType>(i);
        return true;
      }
    }
    if (!type.empty())
      disable(t, "type", of,
              fmt::format("unknown type '{}' of option '{}' of {} (a newer Kinora may know it){}", type,
                          out.name, of.id, did_you_mean_or_list(type, names, "types")));
    return false;
  }

  std::optional<double> number(TomlTable& t, const char* key) {
    const auto* n = t.node(key);
    if (!n) return {};
    if (const auto* v = n->as_integer()) return static_cast<double>(v->get());
    if (const auto* v = n->as_floating_point()) return v->get();
    to_.errors.add(n->source(), "'{}' must be a number", key);
    return {};
  }

  void default_of(const toml::node& node, OptionSpec& out, const std::string& owner) {
    const auto given = to_json(node);
    if (!given)
      return to_.errors.add(node.source(), "a default is a number, a string, a bool or a list of them");
    std::vector<Problem> problems;
    out.default_value = *given;  // an infinite one is meant
    out.default_value = checked_value(out, *given, owner, problems);
    // The default of a required option is only an example; it may be empty.
    if (out.required) return;
    for (const auto& p : problems) to_.errors.add(node.source(), "default: {}", p.message);
  }

  Reading to_;
};

}  // namespace

bool is_name(std::string_view s) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !s.empty() && s.size() <= 64 && s[0] != '.' && s[0] != '-' && s.find_first_not_of(letters) == s.npos;
}

bool has_text(const toml::table& table, const char* key) {
  const auto* node = table.get(key);
  return node && node->is_string();
}

ComponentSpec read_component(const toml::table& table, Reading reading) {
  return ComponentReader(reading).read(table);
}

}  // namespace kinora::core
