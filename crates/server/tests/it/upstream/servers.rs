pub fn transactions_go_where_they_belong() {}
pub fn roles_are_followed() {}
pub fn a_later_timeline_counts() {}
pub fn clients_choose_their_servers() {}
pub fn lost_outcomes_are_unknown() {}
pub fn servers_have_gates_of_their_own() {}
