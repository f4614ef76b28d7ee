// Counts and measured times of a server, in the text format that Prometheus reads (version 0.0.4). Labels are routes,
// statuses, codes of errors and names of models, never what a client sent.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace kinora::serve {

// [any-thread]
class Metrics {
 public:
  // `name="value"`, with what the format requires to be escaped.
  static std::string label(const std::string& name, const std::string& value);
  // name: without "kinora_serve_". labels: `route="/health",status="200"`, or "".
  void count(const std::string& name, const std::string& labels = "");
  // Counts a time, or another measure of such a range.
  void observe(const std::string& name, double seconds);
  // The times are there from the start, with no observation.
  std::string text() const;

 private:
  static constexpr std::array kBounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,  1.0,
                                      2.5,   5.0,  10.0,  30.0, 60., 120., 300., 600.};
  struct Seen {
    std::array<int64_t, kBounds.size()> within{};  // by each bound
    int64_t count = 0;
    double sum = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, int64_t>> counts_;
  std::map<std::string, Seen> seen_{
      {"queue_seconds", {}},   {"first_frame_seconds", {}}, {"chunk_seconds", {}},   {"step_seconds", {}},
      {"denoise_seconds", {}}, {"decode_seconds", {}},      {"realtime_factor", {}}, {"cancel_seconds", {}}};
};

}  // namespace kinora::serve
