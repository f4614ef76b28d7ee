// The server answers those who have its token, as `Authorization: Bearer TOKEN` or as the first subprotocol
// `kinora.TOKEN` of a WebSocket, and browsers that opened the page's address /?t=TOKEN, which gives them a cookie.
// /health is for everybody. A second token, of less right, opens the same in read-only form: GET and HEAD, and no
// WebSocket.
#pragma once
#include <string>

#include "apps/web/server.hpp"

namespace kinora::serve {

// Refuses requests without a token or its cookie, those of pages of other sites, and with the code `read_only` whatever
// the token of less right does not open; "": there is no such token. Every answer gets an x-request-id, and one that
// only this token or its cookie opens `x-kinora-access: read`. port: the server's, part of the cookie's name.
void guard_with(web::Server& server, const std::string& token, int port, const std::string& read_token = "");

// Where the page is: "http://127.0.0.1:8000/" with the token.
std::string page_address(const std::string& url, const std::string& token);

}  // namespace kinora::serve
