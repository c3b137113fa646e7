//! `overtake mpl`: a calculator for people who must choose how many transactions to let into a database at once.
//!
//! **Invariant:** it calculates, by [`gate::model`]; the figures do not depend on the machine. Each curve has one
//! figure for each limit, whatever part of them is printed.

mod curves;
mod limits;
mod response;
mod throughput;

use crate::arguments::WithOutput;
use crate::publish;
use clap::Subcommand;
use host::refusal::Refusal;
use host::stop::Stop;

/// Question that a limit is to answer.
#[derive(Subcommand)]
pub enum Question {
    /// Throughput that a limit keeps: a closed network of resources (section 4.1 of the paper, Figure 7).
    Throughput(WithOutput<throughput::ThroughputArguments>),
    /// Time that a limit makes transactions wait: an external queue before a shared server (section 4.2, Figure 10).
    Response(WithOutput<response::ResponseArguments>),
}

/// Answers the question and publishes the report.
///
/// # Errors
/// A [`Refusal`] if the arguments make no model, [`host::stop::Stopped`], or the error that kept the report from being
/// written.
pub fn run(question: Question, stop: &Stop) -> anyhow::Result<()> {
    match question {
        Question::Throughput(asked) => publish(&asked, throughput::run),
        Question::Response(asked) => publish(&asked, |arguments| response::run(arguments, stop)),
    }
}

/// Returns the refusal of arguments that make no model.
fn refuse(error: gate::model::ModelError) -> Refusal {
    Refusal::new(error.to_string())
}
