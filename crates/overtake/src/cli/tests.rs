use super::*;
use clap::CommandFactory;

#[test]
fn the_definition_is_consistent() {
    Overtake::command().debug_assert();
}

#[test]
fn every_level_has_help_for_every_argument() {
    fn visit(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{} says nothing about itself", command.get_name());
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {} has no help", command.get_name(), argument.get_id());
        }
        command.get_subcommands().for_each(visit);
    }
    visit(&Overtake::command());
}
