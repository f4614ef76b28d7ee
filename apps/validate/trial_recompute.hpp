// The strategy parallel/recompute in a chain of `kinora plugins validate`.
#pragma once
#include <memory>
#include <vector>

#include "apps/validate/trial_call.hpp"
#include "kinora/abi/parallel.h"

namespace kinora {

// The link of parallel/recompute, which runs every block again in the backward.
class TrialRecompute {
 public:
  explicit TrialRecompute(const PluginTrial& t) {
    if (t.subject.recompute.empty()) throw Skipped{"parallel/recompute is not among the plugins here"};
    const Subject subject = subject_of(t.subject.recompute);
    const auto* spec = subject.plugin ? subject.plugin->component("parallel/recompute") : nullptr;
    if (!spec) throw Skipped{t.subject.recompute.string() + ": its manifest cannot be read"};
    api_ = static_cast<const kinora_parallel*>(open_watched(subject, *spec).api);
    const core::Options options = core::or_throw(core::Options::make(*spec, core::json::object()));
    mesh_.struct_size = sizeof mesh_;
    mesh_.size = 1;
    mesh_.group = [](void*, const char*, const kinora_group**) -> int32_t {
      return set_error(KINORA_ERROR_UNSUPPORTED, "the check has no groups");
    };
    self_ = {api_->create(&watching_host(), options.abi(), &mesh_), api_->destroy};
    if (!self_) throw Error(KINORA_ERROR_FAILED, "parallel/recompute: " + last_message());
    require_ok(api_->link(self_.get(), &link_), "link() of parallel/recompute");
  }
  std::vector<const kinora_link*> links() const { return {link_}; }

 private:
  const kinora_parallel* api_ = nullptr;
  kinora_mesh mesh_{};
  std::unique_ptr<void, void (*)(void*)> self_{nullptr, nullptr};
  const kinora_link* link_ = nullptr;
};

}  // namespace kinora
