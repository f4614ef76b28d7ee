// One component in full: its plugin, its tensors, its options, and how a run file uses it.
#include "apps/kinora/plugins_format.hpp"
#include "core/base/quantity.hpp"
#include "core/plugin/kinds.hpp"
#include "core/plugin/options.hpp"
#include "host/apply/apply.hpp"
#include "kinora/options.hpp"

namespace kinora {
namespace {

using core::json;

// The value as written in a run file.
std::string toml_text(const core::OptionSpec& o) {
  const json& v = o.default_value;
  if (v.is_number_float()) return detail::toml_float(v.get<double>());
  return core::portable_json(v).dump();
}

std::string default_text(const core::OptionSpec& o) {
  if (o.required) return "(required)";
  return o.type == core::OptionType::size ? core::format_size(o.default_value.get<uint64_t>()) : toml_text(o);
}

// A storage's name is the scheme of its URIs; writing such a URI is enough to use it.
std::string storage_text(const core::ComponentSpec& c) {
  std::string out = fmt::format("[storage.{}]", c.name);
  size_t shown = 0;
  for (const auto& o : c.options)
    if (!core::is_list(o.type) && (o.required || shown++ < 2))
      out += fmt::format("\n{} = {}", o.name, o.required ? "..." : toml_text(o));
  return out;
}

// How a run file uses it, with the options that fit on one line: those with a plain default. A source is used
// by the command line alone.
std::string use_text(const core::ComponentSpec& c) {
  if (c.kind == "storage") return storage_text(c);
  if (c.kind == "source") return fmt::format("kinora apply {} PATH --limit 10", c.id);
  if (c.kind == "service") return "by other parts of Kinora; a run file names none";
  if (c.kind == "job") return fmt::format("[[job]]\nkind = \"{}\"", c.name);
  // A run file takes a list of stages, scores and strategies, and a single component of every other kind.
  const bool is_plural = c.kind == "stage" || c.kind == "score",
             is_listed = is_plural || c.kind == "parallel";
  std::string out =
      fmt::format("{} = {}{{ use = \"{}\"", is_plural ? c.kind + "s" : c.kind, is_listed ? "[" : "", c.name);
  size_t shown = 0;
  for (const auto& o : c.options) {
    if (core::is_list(o.type) || (!o.required && shown >= 2)) continue;
    out += fmt::format(", {} = {}", o.name, o.required ? "..." : toml_text(o));
    ++shown;
  }
  return out + (is_listed ? " }]" : " }");
}

std::vector<std::vector<std::string>> tensor_lines(const std::vector<core::TensorSpec>& tensors) {
  std::vector<std::vector<std::string>> out;
  for (const auto& t : tensors) {
    std::string help = t.help;
    const auto add = [&](const std::string& text) { help += (help.empty() ? "" : "; ") + text; };
    if (!t.per.empty()) add("one per " + t.per);
    if (!t.when_value.empty())
      add(fmt::format("only with {} = \"{}\"", t.when, t.when_value));
    else if (!t.when.empty())
      add("only with " + t.when);
    if (t.is_optional) add("optional");
    out.push_back({t.name, t.dtype, t.shape, help});
  }
  return out;
}

std::string markdown_table(const std::vector<std::string>& head,
                           const std::vector<std::vector<std::string>>& lines) {
  std::string out = fmt::format("| {} |\n|", fmt::join(head, " | "));
  for (size_t i = 0; i < head.size(); ++i) out += "---|";
  out += "\n";
  for (const auto& line : lines) {
    out += "|";
    for (std::string cell : line) {
      for (size_t at = 0; (at = cell.find('|', at)) != cell.npos; at += 2) cell.insert(at, "\\");
      out += " " + cell + " |";
    }
    out += "\n";
  }
  return out + "\n";
}

std::vector<std::vector<std::string>> layout_lines(const core::ComponentSpec& c) {
  std::vector<std::vector<std::string>> out;
  for (const auto& l : c.layouts) out.push_back({l.name, l.help});
  return out;
}

std::vector<std::vector<std::string>> score_lines(const core::ComponentSpec& c) {
  std::vector<std::vector<std::string>> out;
  for (const auto& s : c.scores) out.push_back({s.name, s.unit, s.title});
  return out;
}

// The components that a job is made of.
std::vector<std::vector<std::string>> slot_lines(const core::ComponentSpec& c) {
  std::vector<std::vector<std::string>> out;
  for (const auto& s : c.slots)
    out.push_back({s.name, (s.list ? "a list of kind " : "of kind ") + s.kind,
                   !s.use.empty() ? "default " + s.use
                   : s.required   ? "(required)"
                                  : "",
                   s.help});
  return out;
}

std::vector<std::vector<std::string>> option_lines(const core::ComponentSpec& c) {
  std::vector<std::vector<std::string>> out;
  for (const auto& o : c.options) out.push_back({o.name, default_text(o), core::expected_text(o), o.help});
  return out;
}

json option_json(const core::OptionSpec& o) {
  json out = {{"name", o.name},
              {"type", core::type_name(o.type)},
              {"default", core::portable_json(o.default_value)},
              {"required", o.required},
              {"help", o.help}};
  const auto bound = [&](const char* key, const std::optional<double>& v) {
    if (v) out[key] = core::portable_json(*v);
  };
  bound("min", o.min);
  bound("max", o.max);
  bound("above", o.above);
  bound("below", o.below);
  if (!o.unit.empty()) out["unit"] = o.unit;
  if (!o.choices.empty()) out["choices"] = o.choices;
  if (o.is_bound) out["bound"] = true;
  return out;
}

json tensors_json(const std::vector<core::TensorSpec>& tensors) {
  json out = json::array();
  for (const auto& t : tensors) {
    json one = {{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}, {"help", t.help}};
    if (!t.per.empty()) one["per"] = t.per;
    if (!t.when.empty()) one["when"] = t.when;
    if (!t.when_value.empty()) one["when_value"] = t.when_value;
    if (t.is_optional) one["optional"] = true;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string inspect_text(const Row& row) {
  const auto& c = *row.component;
  const auto& p = row.plugin.spec;
  std::string out = c.id + (c.help.empty() ? "" : ": " + c.help) + "\n";
  std::vector<std::vector<std::string>> facts = {
      {"plugin", fmt::format("{} {}, ABI {}.{}, {}", p.name, p.version, p.abi_major, p.abi_minor,
                             p.tier == core::Tier::pinned ? "pinned to libtorch " + p.torch
                             : p.tier == core::Tier::host ? "works with Kinora " + p.kinora + " alone"
                                                          : "stable")},
      {"library", row.plugin.library.string()},
      {"state", state_of(row) + (reason_of(row).empty() ? "" : ": " + reason_of(row))}};
  if (is_draft(row))
    facts.push_back({"draft", fmt::format("{} may still change; a plugin is then built again",
                                          core::find_kind(c.kind)->interface)});
  out += aligned(facts);
  const auto inputs = core::apply_inputs(c), outputs = core::apply_outputs(c);
  if (!inputs.empty()) out += "\ninputs\n" + aligned(tensor_lines(inputs), "  ");
  if (!outputs.empty()) out += "\noutputs\n" + aligned(tensor_lines(outputs), "  ");
  if (!c.scores.empty()) out += "\nscores\n" + aligned(score_lines(c), "  ");
  if (!c.layouts.empty()) out += "\nweights under other names\n" + aligned(layout_lines(c), "  ");
  std::vector<std::vector<std::string>> methods;
  for (const auto& m : core::apply_methods(c)) methods.push_back({m.name, m.takes + " -> " + m.gives});
  if (!methods.empty()) out += "\nkinora apply --method\n" + aligned(methods, "  ");
  if (!c.reads.empty()) out += fmt::format("\nreads  {}\n", fmt::join(c.reads, ", "));
  if (!c.slots.empty()) out += "\ncomponents\n" + aligned(slot_lines(c), "  ");
  if (!c.options.empty()) out += "\noptions\n" + aligned(option_lines(c), "  ");
  if (c.kind == "source") return out + "\non the command line\n  " + use_text(c) + "\n";
  std::string use = use_text(c);
  for (size_t at = 0; (at = use.find('\n', at)) != use.npos; at += 3) use.insert(at + 1, "  ");
  return out + "\nin a run file\n  " + use + "\n";
}

json inspect_json(const Row& row) {
  json out = list_json({row})[0];
  out["torch"] = row.plugin.spec.torch;
  out["inputs"] = tensors_json(core::apply_inputs(*row.component));
  out["outputs"] = tensors_json(core::apply_outputs(*row.component));
  out["methods"] = json::array();
  for (const auto& m : core::apply_methods(*row.component))
    out["methods"].push_back({{"name", m.name}, {"takes", m.takes}, {"gives", m.gives}});
  for (const auto& s : row.component->scores)
    out["scores"].push_back({{"name", s.name}, {"title", s.title}, {"unit", s.unit}});
  out["layouts"] = json::array();
  for (const auto& l : row.component->layouts) out["layouts"].push_back({{"name", l.name}, {"help", l.help}});
  if (row.component->kind == "job") {
    out["reads"] = row.component->reads;
    out["slots"] = json::array();
    for (const auto& s : row.component->slots)
      out["slots"].push_back({{"name", s.name},
                              {"kind", s.kind},
                              {"default", s.use},
                              {"required", s.required},
                              {"list", s.list},
                              {"help", s.help}});
  }
  out["options"] = json::array();
  for (const auto& o : row.component->options) out["options"].push_back(option_json(o));
  return out;
}

std::string inspect_markdown(const Row& row) {
  const auto& c = *row.component;
  std::string out = fmt::format("### `{}`\n\n{}\n\n", c.id, c.help);
  const auto inputs = core::apply_inputs(c), outputs = core::apply_outputs(c);
  if (!inputs.empty()) out += markdown_table({"input", "dtype", "shape", ""}, tensor_lines(inputs));
  if (!outputs.empty()) out += markdown_table({"output", "dtype", "shape", ""}, tensor_lines(outputs));
  if (!c.scores.empty()) out += markdown_table({"score", "unit", ""}, score_lines(c));
  if (!c.layouts.empty()) out += markdown_table({"layout of weights", ""}, layout_lines(c));
  if (!c.slots.empty()) out += markdown_table({"component", "kind", "default", ""}, slot_lines(c));
  if (!c.options.empty()) out += markdown_table({"option", "default", "takes", ""}, option_lines(c));
  return out + fmt::format("```{}\n{}\n```\n", c.kind == "source" ? "sh" : "toml", use_text(c));
}

}  // namespace kinora
