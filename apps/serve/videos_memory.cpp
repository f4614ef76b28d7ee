// Which videos may be made at a time: the models and the videos that are made have `memory` bytes together.
#include <algorithm>

#include <fmt/format.h>

#include "apps/serve/api_error.hpp"
#include "apps/serve/videos_model.hpp"
#include "core/base/facts.hpp"
#include "core/base/quantity.hpp"

namespace kinora::serve {
namespace {

std::string size_text(int64_t bytes) { return core::format_size(static_cast<uint64_t>(bytes)); }

int64_t bytes_of(const nlohmann::json& fields) {
  return static_cast<int64_t>(core::number_in(fields, "bytes"));
}

}  // namespace

int64_t Videos::bytes_of_models() const {
  int64_t out = 0;
  for (const auto& [_, model] : models_) out += model->weights;
  return out;
}

void Videos::require_models_fit() const {
  if (settings_.memory == 0 || bytes_of_models() <= settings_.memory) return;
  throw Error(KINORA_ERROR_INVALID,
              fmt::format("the models have {} of weights, and memory is {}; raise it, or serve fewer models",
                          size_text(bytes_of_models()), size_text(settings_.memory)));
}

void Videos::require_fit(const nlohmann::json& fields) const {
  const int64_t needed = bytes_of(fields), models = bytes_of_models();
  if (settings_.memory == 0 || models + needed <= settings_.memory) return;
  throw ApiError(400,
                 fmt::format("the video needs {}, the models have {} of weights, and this server may use {}; "
                             "ask for a smaller or shorter one",
                             size_text(needed), size_text(models), size_text(settings_.memory)),
                 "does_not_fit", "size");
}

bool Videos::fits_now(const nlohmann::json& fields) const {
  int64_t used = bytes_of_models();
  for (const auto& [_, one] : making_) used += one.bytes;
  for (const auto& [_, one] : lives_) used += one.has_begun ? bytes_of(one.fields) : 0;
  return settings_.memory == 0 || used + bytes_of(fields) <= settings_.memory;
}

bool Videos::has_room(const Model& model, const nlohmann::json& fields) {
  if (settings_.memory == 0) return true;
  if (!first_.empty() && first_ != model.settings.name) return false;
  const bool fits = fits_now(fields);
  first_ = fits ? "" : model.settings.name;
  return fits;
}

bool Videos::has_room_for_next(const Model& model) {
  if (settings_.memory == 0) return true;
  while (const auto video = store_.next(model.settings.name)) {
    try {
      require_fit(video->fields);
      return has_room(model, video->fields);
    } catch (const ApiError& e) {  // the bound was another one when it was accepted
      accepted_.erase(video->id);
      fail(*video, e.code, e.what());
    }
  }
  return false;
}

// The model whose work waits for memory comes first, unless its process is gone.
void Videos::dispatch_all() {
  const auto at = models_.find(first_);
  first_.clear();
  if (at != models_.end()) dispatch(*at->second);
  for (auto& [_, model] : models_) dispatch(*model);
}

void Videos::fail_unserved() {
  for (const auto& name : store_.models_of_queued()) {
    if (std::ranges::any_of(settings_.models, [&](const auto& one) { return one.name == name; })) continue;
    while (const auto video = store_.next(name))
      fail(*video, "model_not_found", "this server has no model '" + name + "' any more");
  }
}

}  // namespace kinora::serve
