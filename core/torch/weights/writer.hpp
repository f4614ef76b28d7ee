// Writes one thing at a time in a thread of its own, while its owner continues.
#pragma once
#include <functional>
#include <future>

namespace kinora::core {

class BackgroundWriter {
 public:
  // background: false runs the work inside start().
  explicit BackgroundWriter(bool background) : background_(background) {}
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;
  // Waits for the work. An error that was not thrown yet is logged.
  ~BackgroundWriter();

  // Waits for the previous work, then starts this one. Throws the previous work's error.
  void start(std::function<void()> work);
  // Throws the error of finished work, once. Does not wait.
  void check();
  // Whether work is in progress.
  bool busy() const;
  // Waits, then does as check().
  void finish();

 private:
  bool background_;
  std::future<void> work_;
};

}  // namespace kinora::core
