#include "apps/command/command_line.hpp"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <string_view>

#include "apps/command/load_run.hpp"
#include "core/base/printable.hpp"
#include "core/config/document.hpp"
#include "host/weights/weights.hpp"

namespace kinora {

int complain(int code, const std::string& message) {
  std::cerr << "kinora: " << core::printable(message) << "\n";
  return code;
}

std::optional<core::RunFile> load_run(core::Runtime& runtime, const std::string& file,
                                      const std::vector<std::string>& sets, std::optional<int64_t> ranks,
                                      const std::string& only) {
  return load_run(runtime, core::Document::read(file), file, sets, ranks, only);
}

std::optional<core::RunFile> load_run(core::Runtime& runtime, core::Result<core::Document> doc,
                                      const std::string& file, const std::vector<std::string>& sets,
                                      std::optional<int64_t> ranks, const std::string& only) {
  if (!doc) {
    std::cerr << core::printable(doc.failure().message) << "\n";
    return std::nullopt;
  }
  std::vector<core::Diagnostic> problems;
  core::RunFile run = load_run(runtime, *doc, file, sets, ranks, problems, only);
  for (const auto& p : problems)
    std::cerr << core::printable(p.at.file.empty() ? p.message : core::format(p)) << "\n";
  if (problems.empty()) return run;
  std::cerr << file << ": " << problems.size() << (problems.size() == 1 ? " error\n" : " errors\n");
  return std::nullopt;
}

SetOption parse_set(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(KINORA_ERROR_INVALID, "--set " + text + ": expected NAME=VALUE");
  SetOption out{text.substr(0, equals), {}, text.substr(equals + 1)};
  auto parsed = core::Document::parse("v = " + out.text, "--set");
  out.value = parsed ? parsed->root().value("v", nlohmann::json(out.text)) : nlohmann::json(out.text);
  if (out.value.is_string()) out.text = out.value.get<std::string>();
  return out;
}

void complete_options(core::Registry& registry, const core::ComponentSpec& spec, const std::string& config,
                      const std::string& weights, nlohmann::json& options) {
  if (!config.empty())
    options = core::with_config(spec, std::move(options), config);
  else if (!weights.empty())
    options = core::with_weights(registry, spec, std::move(options), {weights});
}

nlohmann::json options_of(core::Registry& registry, const core::ComponentSpec& spec,
                          const std::vector<std::string>& sets, const std::string& weights) {
  nlohmann::json out = nlohmann::json::object();
  std::string config;
  for (const auto& set : sets) {
    const auto [name, value, text] = parse_set(set);
    if (name == "config" && !spec.option(name)) {
      config = text;
    } else {
      out[name] = value;
    }
  }
  complete_options(registry, spec, config, weights, out);
  return out;
}

std::string shell_quoted(const std::string& s) {
  std::string out = "'";
  for (char c : s) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string shell_word(const std::string& s) {
  const bool is_plain = !s.empty() && std::ranges::all_of(s, [](unsigned char c) {
    return std::isalnum(c) || std::string_view("/._-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return is_plain ? s : shell_quoted(s);
}

}  // namespace kinora
