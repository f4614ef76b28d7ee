// Components as text, JSON and Markdown. No input or output of its own.
#pragma once
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"

namespace kinora {

// A component and the plugin that it is of. A plugin whose manifest cannot be read has one row without a
// component.
struct Row {
  core::PluginInfo plugin;
  const core::ComponentSpec* component = nullptr;  // null: none could be read
};

// One row a component of `kind` ("": all), by id; the pointers lie in `plugins`.
std::vector<Row> rows(const std::vector<core::PluginInfo>& plugins, const std::string& kind);

// "ready", "disabled", "loaded" or "shadowed" of the component, not only of its plugin.
std::string state_of(const Row&);
std::string reason_of(const Row&);

// The table of `plugins list`, lines cut at `width` (0: never), then why each disabled or shadowed one is.
std::string list_text(const std::vector<Row>&, const std::vector<std::string>& notices, size_t width);
core::json list_json(const std::vector<Row>&);
std::string list_markdown(const std::vector<Row>&);

std::string inspect_text(const Row&);
core::json inspect_json(const Row&);
std::string inspect_markdown(const Row&);

// Columns padded to the widest cell, two spaces between them.
std::string aligned(const std::vector<std::vector<std::string>>& lines, const std::string& indent = "");

}  // namespace kinora
