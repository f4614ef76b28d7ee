// The meaning of a server's response for the question, and for all further ones.
#pragma once
#include <optional>
#include <string>

#include "client.hpp"
#include "connection.hpp"

namespace kinora::endpoint {

struct Judgement {
  std::optional<Json> answer;  // with `again`, one that is worth another try
  Usage usage;                 // of an answered request, which was paid for
  std::string problem;
  bool again = false;      // the same request may succeed later
  double retry_after = 0;  // seconds that the server asks for
  std::string refused;  // why no request can succeed with the run file's settings of the server; "": one may
};

// The question and the server that was asked.
struct ServerRequest {
  const std::string &stage, &url, &key, &model;
  const char* needed;  // name of the list that an answer must have
};

// Messages do not contain the key.
Judgement judged(const Response&, const ServerRequest&);

}  // namespace kinora::endpoint
