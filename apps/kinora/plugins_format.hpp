// Components as text, JSON and Markdown. These functions do no input or output.
#pragma once
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"

namespace kinora {

// A component and its plugin. A plugin whose manifest cannot be read has one row without a
// component.
struct Row {
  core::PluginInfo plugin;
  const core::ComponentSpec* component = nullptr;  // null: none could be read
};

// One row per component of `kind` ("": all), sorted by id. The pointers refer to `plugins`.
std::vector<Row> rows(const std::vector<core::PluginInfo>& plugins, const std::string& kind);

// State of the component, which may differ from its plugin's: "ready", "disabled", "loaded" or "shadowed".
std::string state_of(const Row&);
std::string reason_of(const Row&);
// Whether the interface of its kind is a draft.
bool is_draft(const Row&);

// The table of `plugins list`, with lines cut at `width` (0: never), then the reasons of disabled and
// shadowed components.
std::string list_text(const std::vector<Row>&, const std::vector<std::string>& notices, size_t width);
core::json list_json(const std::vector<Row>&);
std::string list_markdown(const std::vector<Row>&);

std::string inspect_text(const Row&);
core::json inspect_json(const Row&);
std::string inspect_markdown(const Row&);

// Columns padded to the widest cell, two spaces between them.
std::string aligned(const std::vector<std::vector<std::string>>& lines, const std::string& indent = "");

}  // namespace kinora
