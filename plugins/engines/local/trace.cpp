#include "trace.hpp"

#include <nlohmann/json.hpp>

namespace kinora::local {
namespace {

using nlohmann::json;
constexpr size_t kBuffer = 1 << 16;

std::string text_of(const json& event) {
  return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Trace::Trace(const std::string& uri) : out_(Writer(uri)), buffer_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[") {}

void Trace::span(size_t stage, const char* name, size_t worker, std::string_view key, Clock::time_point begin,
                 double waited, const char* result) {
  const auto end = Clock::now();
  const json event{{"ph", "X"}, {"name", key}, {"cat", name}, {"pid", stage}, {"tid", worker},
                   {"ts", microseconds(begin)},
                   {"dur", std::chrono::duration<double, std::micro>(end - begin).count()},
                   {"args", {{"waited", waited}, {"result", result}}}};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!out_) return;
  if (named_.emplace(stage, worker).second) {
    add(text_of({{"ph", "M"}, {"name", "process_name"}, {"pid", stage}, {"args", {{"name", name}}}}));
    add(text_of({{"ph", "M"}, {"name", "thread_name"}, {"pid", stage}, {"tid", worker},
                 {"args", {{"name", "worker " + std::to_string(worker)}}}}));
  }
  add(text_of(event));
}

void Trace::counter(const char* stage, uint64_t queue, uint32_t busy, uint64_t bytes) {
  const double now = microseconds(Clock::now());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!out_) return;
  add(text_of({{"ph", "C"}, {"name", std::string("queue of ") + stage}, {"pid", 0}, {"ts", now},
               {"args", {{"waiting", queue}, {"busy", busy}}}}));
  if (bytes > 0)
    add(text_of({{"ph", "C"}, {"name", "bytes of samples"}, {"pid", 0}, {"ts", now}, {"args", {{"bytes", bytes}}}}));
}

void Trace::add(const std::string& event) {
  if (!first_) buffer_ += ",\n";
  first_ = false;
  buffer_ += event;
  if (buffer_.size() < kBuffer) return;
  out_->write(buffer_);
  buffer_.clear();
}

void Trace::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!out_) return;
  buffer_ += "]}\n";
  out_->write(buffer_);
  out_->commit();
  out_.reset();
}

}  // namespace kinora::local
