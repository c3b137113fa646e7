//! Error responses, as JSON: `{"error": {"code", "message", "hint"}}`.

use axum::extract::Json;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An error response.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Refusal {
    /// Creates an error with a status, a code for programs, and a sentence for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into(), hint: None }
    }

    /// Error of a request that is invalid.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// Error of a request that none of our pages sends.
    pub fn foreign(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, "foreign", message)
    }

    /// Error of a request for an unknown path.
    pub fn nothing_at(uri: &Uri) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {}", uri.path()))
    }

    /// Error of a request by a method that the path does not take.
    pub fn wrong_method() -> Refusal {
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this path does not take that method")
    }

    /// Adds a hint at the remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message, "hint": self.hint } });
        (self.status, Json(body)).into_response()
    }
}
