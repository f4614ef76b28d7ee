// Videos that a model makes at a time: its next one, and others alike whose calls of the model are made with its own.
#include "apps/serve/videos_model.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"

namespace kinora::serve {

using nlohmann::json;

json Videos::begun(Model& model, const StoredVideo& video) {
  // As JSON, so that no prompt makes a line of its own.
  const std::string prompt =
      settings_.log_prompts
          ? " prompt=" + video.fields.value("prompt", json()).dump(-1, ' ', false, json::error_handler_t::replace)
          : "";
  core::log_info("video begins: id={} model={} start={}{}", video.id, video.model, video.starts, prompt);
  model.at_work.insert(video.id);
  making_[video.id] = {.bytes = static_cast<int64_t>(core::number_in(video.fields, "bytes"))};
  if (const auto at = accepted_.find(video.id); at != accepted_.end()) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - at->second;
    measured_.observe("queue_seconds", waited.count());
    accepted_.erase(at);
  }
  return {{"make", video.id}, {"folder", folder_of(video.id).string()}, {"fields", video.fields}};
}

// A video whose process has ended under it is made alone, so that it can end no other's again.
json Videos::begun_together(Model& model, const StoredVideo& first) {
  json all = json::array({begun(model, first)});
  const std::string alike = core::text_in(first.fields, "alike");
  const auto most = first.starts > 1 || alike.empty() ? 1 : static_cast<size_t>(model.settings.batch);
  try {
    while (all.size() < most) {
      const auto next = store_.next(model.settings.name, alike);
      if (!next || !fits_now(next->fields)) break;
      all.push_back(begun(model, *store_.begin_next(model.settings.name, alike)));
    }
  } catch (const std::exception& e) {  // a full disk: the others stay queued
    complain(fmt::format("model '{}': fewer videos begin together: {}", model.settings.name, e.what()));
  }
  return all.size() == 1 ? all[0] : json::object({{"batch", all}});
}

}  // namespace kinora::serve
