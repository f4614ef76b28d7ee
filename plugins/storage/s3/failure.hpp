// The meaning of an unsuccessful answer: whether another try may help and when, and the message for the user.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "kinora/error.hpp"
#include "plugins/storage/s3/answers.hpp"
#include "plugins/storage/s3/credentials.hpp"
#include "plugins/storage/s3/http.hpp"

namespace kinora::s3 {

enum class Verdict { again, new_credentials, final };
// Whether no server answered at the address.
bool is_nobody(const HttpAnswer& answer);

Verdict judge(const HttpAnswer& answer, const ServerError& said);

// `subject`: "s3://bucket/key: cannot be read". Keys and tokens that a server repeats in its answer are
// removed. `tries`: number of attempts.
Error failure(const std::string& subject, const HttpAnswer& answer, const ServerError& said,
              const Credentials* credentials, const std::string& region, int64_t tries);

// How often and after which pause a request is repeated: pauses double from 0.1 s to 20 s, each drawn
// uniformly between 0 and that ("full jitter"), so that clients that failed together do not return
// together. A server's Retry-After is obeyed up to a minute.
class Tries {
 public:
  explicit Tries(int64_t most) : most_(most) {}
  // Sleeps before another try. Returns false if none is left, or if *stop becomes true.
  bool another(const HttpAnswer& answer, const std::atomic<bool>* stop = nullptr);
  // There was progress since the last failure: the count restarts.
  void restart() { failed_in_a_row_ = 0; }
  int64_t count() const { return all_; }

 private:
  int64_t most_, failed_in_a_row_ = 0, all_ = 1;
};

}  // namespace kinora::s3
