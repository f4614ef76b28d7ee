// The meaning of an unsuccessful answer: whether another try may help and when, and the message for the user.
#pragma once
#include <cstdint>
#include <string>

#include "kinora/error.hpp"
#include "plugins/storage/ranged/http.hpp"
#include "plugins/storage/s3/answers.hpp"
#include "plugins/storage/s3/credentials.hpp"

namespace kinora::s3 {

using ranged::HttpAnswer;

enum class Verdict { again, new_credentials, final };
Verdict judge(const HttpAnswer& answer, const ServerError& said);

// `subject`: "s3://bucket/key: cannot be read". Keys and tokens that a server repeats in its answer are
// removed. `tries`: number of attempts.
Error failure(const std::string& subject, const HttpAnswer& answer, const ServerError& said,
              const Credentials* credentials, const std::string& region, int64_t tries);

}  // namespace kinora::s3
