// A strategy on several ranks of this machine compared with one process: of `kinora plugins check-parallel` and
// of the check `strategy` of `kinora plugins validate`.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"

namespace kinora {

struct Comparison {
  std::string id;  // "parallel/ddp"
  int ranks = 2;
  double seconds = 60;                           // for a transfer
  std::vector<std::string> sets{};               // NAME=VALUE, options of the strategy
  std::vector<std::filesystem::path> plugins{};  // folders of the plugins that the ranks find, in this order
};

// The folders of this process's plugins.
std::vector<std::filesystem::path> plugins_in_use(const core::Registry&);

// The ranks' findings: "ranks", "layout" and "trials", each with "worst" and, if it differs, "wrong", or with
// "skipped". Nothing if a rank failed: the launch has printed the error, and `code` is its exit code. The
// ranks' logs are in the folder `at`. Throws Error.
std::optional<core::json> compared_on_ranks(const Comparison&, const std::filesystem::path& at, int& code);

// "parallel/ddp: the trial: what is off, and the rule that is probably broken" of the first; "": none.
std::string difference_of(const std::string& id, const core::json& found);

}  // namespace kinora
