// The fields of a request of `kinora serve`: what a model's pipeline makes of them.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "plugins/jobs/generate/video_bytes.hpp"
#include "plugins/jobs/inference/generate_options.hpp"
#include "plugins/jobs/inference/pipeline.hpp"
#include "plugins/jobs/inference/request.hpp"

namespace kinora::core {

// fields: those of apps/serve/fields.hpp. [any-thread]
class RequestFields {
 public:
  // All must outlive this object. options: of the job, whose values are those that a request leaves out.
  RequestFields(JobContext& context, const GenerateOptions& options, inference::Pipeline& pipeline);

  // The size, length, rate and guidance of a video whose request has none.
  nlohmann::json defaults() const;
  // A video begins with one of these: "text", "image", "video".
  nlohmann::json inputs() const;
  // A request can make these: "video", "image". A model of pictures makes no video.
  nlohmann::json outputs() const;
  // The answer to {"check": N, "fields": {...}}, as serving.hpp has it.
  nlohmann::json checked(const nlohmann::json& message);
  // fields: of checked(). Throws Error.
  Request request_of(const nlohmann::json& fields) const;
  GenerateOptions options_of(const nlohmann::json& fields) const;
  // As VideoBytes.
  void learn(const nlohmann::json& fields, const inference::Session::Made& made) {
    bytes_.learn(fields, made);
  }

 private:
  nlohmann::json complete(nlohmann::json fields);
  std::string alike(const Request& request, size_t levels) const;
  void require_beginning(const nlohmann::json& fields) const;
  LoraUse lora_of(const nlohmann::json& fields) const;
  int64_t whole(double frames) const;
  int64_t most_whole(int64_t length) const;

  JobContext& context_;
  const GenerateOptions& options_;
  inference::Pipeline& pipeline_;
  const bool begins_with_text_;
  VideoBytes bytes_;
};

}  // namespace kinora::core
