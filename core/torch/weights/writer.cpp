#include "core/torch/weights/writer.hpp"

#include <chrono>

#include "core/base/log.hpp"

namespace kinora::core {

BackgroundWriter::~BackgroundWriter() {
  try {
    finish();
  } catch (const std::exception& e) {
    log_error("{}", e.what());
  }
}

void BackgroundWriter::start(std::function<void()> work) {
  finish();
  if (background_)
    work_ = std::async(std::launch::async, std::move(work));
  else
    work();
}

bool BackgroundWriter::busy() const {
  return work_.valid() && work_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void BackgroundWriter::check() {
  if (!busy()) finish();
}

void BackgroundWriter::finish() {
  if (work_.valid()) work_.get();
}

}  // namespace kinora::core
