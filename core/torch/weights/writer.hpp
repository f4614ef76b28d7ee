// One thing written at a time, by a thread of its own, while its owner goes on.
#pragma once
#include <functional>
#include <future>

namespace kinora::core {

class BackgroundWriter {
 public:
  // background: false does the work in start().
  explicit BackgroundWriter(bool background) : background_(background) {}
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;
  // Waits; an error that nobody has seen yet goes to the log.
  ~BackgroundWriter();

  // Waits for the work before it, then begins. Throws what that one threw.
  void start(std::function<void()> work);
  // Throws what finished work threw, once. Does not wait.
  void check();
  // Whether work goes on.
  bool busy() const;
  // Waits, then as check().
  void finish();

 private:
  bool background_;
  std::future<void> work_;
};

}  // namespace kinora::core
