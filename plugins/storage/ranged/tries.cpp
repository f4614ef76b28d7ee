#include "plugins/storage/ranged/tries.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <thread>

namespace kinora::ranged {
namespace {

// Errors of libcurl that may pass by themselves.
bool is_passing(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // for a redirected answer; the endpoint's protocol was checked
    case CURLE_HTTP2:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_READ_ERROR:
    case CURLE_CHUNK_FAILED:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_nobody(const HttpAnswer& a) {
  return a.code == CURLE_COULDNT_CONNECT || a.code == CURLE_COULDNT_RESOLVE_HOST ||
         (a.code == CURLE_OPERATION_TIMEDOUT && a.status == 0);
}

bool may_pass(const HttpAnswer& a) {
  if (a.code != CURLE_OK) return is_passing(a.code);
  return a.status == 408 || a.status == 429 || (a.status >= 500 && a.status != 501 && a.status != 507);
}

bool Tries::goes_on(HttpAnswer& answer) {
  constexpr uint64_t kMuch = 64 << 10;  // after so many bytes a broken connection is the first failure again
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - progress_).count();
  if (answer.got > 0 && static_cast<double>(answer.got) >= seconds * kLeastSpeed) {
    progress_ = now;
    if (answer.got >= kMuch) failed_in_a_row_ = 0;
    return answer.is_ok();
  }
  if (answer.is_ok() && answer.got > 0) {
    answer.code = CURLE_OPERATION_TIMEDOUT;
    answer.problem = "the server sends fewer than " + std::to_string(kLeastSpeed) + " bytes a second";
  }
  return false;
}

bool Tries::another(const HttpAnswer& answer, const std::atomic<bool>* stop) {
  // A name that cannot be resolved is most often wrong.
  const int64_t most = answer.code == CURLE_COULDNT_RESOLVE_HOST ? std::min<int64_t>(most_, 2) : most_;
  if (failed_in_a_row_ >= most) return false;
  const double bound =
      std::min(20.0, 0.1 * std::exp2(std::min<double>(20, static_cast<double>(failed_in_a_row_))));
  // Affects only time, never results: this randomness needs no reproducible seed.
  thread_local std::minstd_rand random(std::random_device{}());
  double pause = std::uniform_real_distribution<double>(0, bound)(random);
  pause = std::max(pause, std::clamp(std::atof(answer.header("retry-after").c_str()), 0.0, 60.0));
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(pause);
  while (Clock::now() < end) {
    if (is_stopped(stop)) return false;
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(end - Clock::now(), std::chrono::milliseconds(50)));
  }
  progress_ += Clock::now() - start;
  ++failed_in_a_row_, ++all_;
  return !is_stopped(stop);
}

}  // namespace kinora::ranged
